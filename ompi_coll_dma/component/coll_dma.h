/*
 * The Open MPI component. There is one per process. It makes a module for each communicator that it may serve.
 *
 * A module installs its functions for the collectives that it can serve and saves the previous functions: the module
 * below. Nothing is set up before the first collective of a communicator: comm_query and enable run for every
 * communicator of every job, and cost one allocation. In the first collective the ranks agree whether coll/dma serves
 * the communicator. If not, all its blocking calls go to the module below, and its other calls are done by messages.
 */
#ifndef COLL_DMA_H
#define COLL_DMA_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "compat.h"

#include "dma/comm.h"

/* Tags of messages on the user's communicator. Users cannot receive messages with negative tags. Open MPI itself uses -1 (any
 * tag) and all tags from -7 down, in 4.1, 5.0 and 6.0. */
#define COLL_DMA_TAG     (-5) /* set-up */
#define COLL_DMA_NET_TAG (-6) /* exchange of network addresses */
/* Persistent calls that are done by messages, DMA_HOST_TAGS downwards: below all tags that Open MPI takes for non-blocking
 * collectives that it does itself, one for each, from -27 down to -INT_MAX / 2. Of networks that transport 24 bits of a tag (pml ucx),
 * it comes here after 7 million of them on a communicator, and to the user's own tags after 8 million. */
#define COLL_DMA_CHANNEL_TAGS (-(1 << 30) - 7340032)

#define COLL_DMA_TOPICS 16 /* of warnings, each of which is shown once per process */

#define COLL_DMA_KEY "coll/dma" /* under which each process that has loaded coll/dma publishes its terms */

/* COLL_DMA_DO(slot), which the user of this list defines, for each function of Open MPI's module that coll/dma replaces: three
 * forms of each operation. */
#define COLL_DMA_FORMS(id, text, function, ...)                                                                        \
    COLL_DMA_DO(function) COLL_DMA_DO(i##function) COLL_DMA_DO(function##_init)
#define COLL_DMA_SLOTS DMA_COLLS(COLL_DMA_FORMS)

/* The parameters on which all ranks of a communicator agree before their first message. Processes publish it. Other versions may have
 * further members behind these. */
typedef struct mca_coll_dma_terms {
    int32_t priority;
    uint32_t nodes;
    uint32_t network; /* the component is built with a network */
    uint32_t net_first_calls;
} mca_coll_dma_terms_t;

typedef struct mca_coll_dma_component {
    mca_coll_base_component_t super;

    dma_params_t params;
    bool named;           /* the user's list of collective components names dma */
    bool first_calls_set; /* the user has set net_first_calls */
    bool published;       /* other processes can read the terms of this one */

    pthread_mutex_t lock;   /* guards proc, ncomms, the terms, loaded, and writes of polling */
    dma_proc_t *proc;       /* created by the first collective */
    unsigned ncomms;        /* communicators of proc */
    atomic_bool polling;    /* the progress callback is registered */
    atomic_uint idle_turns; /* calls of the progress callback since the last one that had work */

    bool fault_tolerant; /* DMA_FAULT_TOLERANT, as it was in MPI_Init: MPI_T_init_thread clears it for a moment */

    bool terms_read, has_terms; /* of rank 0 of the job; `has_terms` false: it has not published any */
    mca_coll_dma_terms_t terms;

    uint8_t *loaded;         /* by process of the job: has it loaded coll/dma, as far as is known (absent.c)? */
    uint32_t nloaded;        /* processes in there */
    atomic_bool some_absent; /* one has not */

    dma_counters_t counters;
    const dma_events_t *events; /* NULL: Open MPI has none */

    pthread_mutex_t report_lock; /* guards `reported`; not `lock`, because the core reports while `lock` is held */
    char reported[COLL_DMA_TOPICS][24];
} mca_coll_dma_component_t;

OMPI_DECLSPEC extern mca_coll_dma_component_t mca_coll_dma_component;

typedef enum mca_coll_dma_state {
    COLL_DMA_NEW,      /* no collective yet, or the set-up failed: then every call returns the same error */
    COLL_DMA_READY,    /* coll/dma serves the communicator */
    COLL_DMA_DECLINED, /* all ranks agreed: the module below serves blocking calls */
} mca_coll_dma_state_t;

/* The functions that were installed before, and their modules: the module below, for each collective. */
typedef struct mca_coll_dma_below {
#define COLL_DMA_DO(slot)                                                                                              \
    mca_coll_base_module_##slot##_fn_t slot;                                                                           \
    mca_coll_base_module_t *slot##_module;
    COLL_DMA_SLOTS
#undef COLL_DMA_DO
} mca_coll_dma_below_t;

typedef struct mca_coll_dma_module {
    mca_coll_base_module_t super;

    mca_coll_dma_state_t state; /* as the last blocking call has seen it */
    dma_comm_t *comm;
    mca_coll_dma_terms_t terms;
    bool multi_node;
    int local_leader;                           /* the lowest rank on this node */
    dma_status_t create_status;                 /* why `comm` could not be created; else DMA_OK */
    bool looked;                                /* for ranks that have not loaded coll/dma, or it is known otherwise */
    bool left;                                  /* there is such a rank: all calls go to the module below */
    atomic_bool reported;                       /* the outcome of the set-up has been reported */
    struct mca_coll_dma_request *spare_request; /* for the next non-blocking call; NULL: none */
    mca_coll_dma_below_t below;
} mca_coll_dma_module_t;

OBJ_CLASS_DECLARATION(mca_coll_dma_module_t);

/* blocking.c, nonblocking.c, persistent.c: the collectives. */
#define COLL_DMA_DO(slot) __typeof__(*(mca_coll_base_module_##slot##_fn_t)NULL) mca_coll_dma_##slot;
COLL_DMA_SLOTS
#undef COLL_DMA_DO

/* component.c: the process object, created on first use. */
dma_status_t mca_coll_dma_proc_retain(dma_proc_t **proc);
void mca_coll_dma_proc_release(void);

/* params.c */
int mca_coll_dma_register_params(void);
/* counters.c: the performance variables. */
int mca_coll_dma_register_counters(void);
/* events.c: the events of MPI_T, if there are any. */
int mca_coll_dma_register_events(void);
void mca_coll_dma_params(dma_params_t *params);

/* selection.c: adds the components that coll/dma needs below it to an include list that names dma. */
int mca_coll_dma_extend_selection(void);

/* net.c. NULL: this build has no network. */
struct dma_net_ops;
const struct dma_net_ops *mca_coll_dma_net_ops(void);
/* Removes the network's progress callback. */
void mca_coll_dma_net_stop_polling(void);

/* module.c */
mca_coll_base_module_t *mca_coll_dma_comm_query(ompi_communicator_t *comm, int *priority);
/* The name of a process, which Open MPI need not have resolved. */
ompi_process_name_t mca_coll_dma_name_of(ompi_communicator_t *comm, int rank);
/* Is it on this node? */
bool mca_coll_dma_is_here(ompi_communicator_t *comm, int rank);

/* terms.c. Publishes the terms of this process, for processes that call MPI_Init at the same time. */
void mca_coll_dma_terms_publish(void);
/* The terms of a communicator: equal on all ranks. False: rank 0 of the job, whose terms these are, has not loaded coll/dma. */
bool mca_coll_dma_terms_get(ompi_communicator_t *comm, mca_coll_dma_terms_t *terms);

/* absent.c: processes of the job that have not loaded coll/dma. The member of dma_host_t. */
int mca_coll_dma_find_absent(void *comm);
/* Before a call that does not wait for the set-up, or in a job that is known to have such processes: leaves the communicator if a
 * rank has not loaded coll/dma. Local. */
void mca_coll_dma_look(mca_coll_dma_module_t *module, ompi_communicator_t *comm);
void mca_coll_dma_forget_absent(void);

/* prepare.c. Creates module->comm if it does not exist. Local. */
dma_status_t mca_coll_dma_comm_open(mca_coll_dma_module_t *module, ompi_communicator_t *comm);
/* Waits until the communicator is set up. DMA_OK: coll/dma serves it. DMA_UNSUPPORTED: it does not. */
dma_status_t mca_coll_dma_comm_setup(mca_coll_dma_module_t *module, ompi_communicator_t *comm);
/* Reports once whether coll/dma serves the communicator, as soon as that is decided. */
void mca_coll_dma_report_state(mca_coll_dma_module_t *module, ompi_communicator_t *comm);

/* Reports once that the next component carries out the first calls of a communicator. `on_device`: this one is in device memory. */
void mca_coll_dma_report_first(const mca_coll_dma_module_t *module, ompi_communicator_t *comm, bool on_device);

/* progress.c: registers the progress callback if calls are in progress. With `open` false, when the component closes, removes it. */
void mca_coll_dma_progress_update(bool open);

/* datatype.c: members of dma_host_t. */
dma_status_t mca_coll_dma_type_rows(const void *type, dma_rows_t *rows);
dma_status_t mca_coll_dma_type_strips(const void *type, dma_visit_t visit, void *arg);

/* services.c */
extern const dma_host_t mca_coll_dma_host;
/* The MPI error class of a status. */
int mca_coll_dma_error_class(dma_status_t status);

#endif
