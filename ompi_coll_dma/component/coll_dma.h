/*
 * coll/dma as Open MPI sees it: a component (one per process) that makes a module for every communicator it may serve.
 *
 * A module owns the function slots it can serve and remembers what was in them: the module below. Nothing is set up
 * before a communicator's first collective: comm_query and enable run on every communicator of every job and cost an
 * allocation. In that first call the ranks agree whether the communicator is served; if not, its blocking calls go to the
 * module below for good.
 */
#ifndef COLL_DMA_H
#define COLL_DMA_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "compat.h"

#include "dma/comm.h"

/* Our messages, on the user's communicator. Negative tags are invisible to users; Open MPI itself uses -1 (any tag) and
 * everything from -7 down, in 4.1, 5.0 and 6.0. */
#define COLL_DMA_TAG     (-5)
#define COLL_DMA_NET_TAG (-6) /* introductions */

#define COLL_DMA_TOPICS 16 /* of warnings: each is shown once per process */

/* The slots we serve: DO(slot) for each. */
#define COLL_DMA_SLOTS(DO)                                                                                             \
    DO(allgather)                                                                                                      \
    DO(allgatherv)                                                                                                     \
    DO(alltoall)                                                                                                       \
    DO(alltoallv)                                                                                                      \
    DO(iallgather)                                                                                                     \
    DO(iallgatherv)                                                                                                    \
    DO(ialltoall)                                                                                                      \
    DO(ialltoallv)                                                                                                     \
    DO(allgather_init)                                                                                                 \
    DO(allgatherv_init)                                                                                                \
    DO(alltoall_init)                                                                                                  \
    DO(alltoallv_init)

typedef struct mca_coll_dma_component {
    mca_coll_base_component_t super;

    dma_params_t params;

    pthread_mutex_t lock;     /* guards the next two, and changes of the third */
    dma_proc_t *proc;         /* made by the first collective */
    unsigned comms;           /* communicators that proc has */
    atomic_bool polling;      /* our progress callback is registered */
    atomic_uint idle;         /* turns of it since anything was under way */
    unsigned long long turns; /* calls of our progress callback */

    pthread_mutex_t said_lock; /* of its own: the core reports from inside calls that hold the other */
    char said[COLL_DMA_TOPICS][24];
} mca_coll_dma_component_t;

OMPI_DECLSPEC extern mca_coll_dma_component_t mca_coll_dma_component;

typedef enum mca_coll_dma_state {
    COLL_DMA_NEW,   /* no collective yet, or its set-up failed: then every call fails the same way */
    COLL_DMA_READY, /* served by us */
    COLL_DMA_ASIDE, /* agreed by all ranks: served by the module below */
} mca_coll_dma_state_t;

/* What was in our slots. */
typedef struct mca_coll_dma_below {
#define COLL_DMA_DO(slot)                                                                                              \
    mca_coll_base_module_##slot##_fn_t slot;                                                                           \
    mca_coll_base_module_t *slot##_module;
    COLL_DMA_SLOTS(COLL_DMA_DO)
#undef COLL_DMA_DO
} mca_coll_dma_below_t;

typedef struct mca_coll_dma_module {
    mca_coll_base_module_t super;

    mca_coll_dma_state_t state; /* as blocking calls have seen it */
    dma_comm_t *comm;
    bool spans;                         /* several nodes; then */
    int first;                          /* the lowest rank of the communicator on this one */
    dma_status_t failed;                /* could not even be created here */
    atomic_bool told;                   /* the outcome of the set-up has been reported */
    struct mca_coll_dma_request *spare; /* for the next non-blocking call; NULL: none */
    mca_coll_dma_below_t below;
} mca_coll_dma_module_t;

OBJ_CLASS_DECLARATION(mca_coll_dma_module_t);

/* blocking.c, nonblocking.c, persistent.c: what is in our slots. */
#define COLL_DMA_DO(slot) __typeof__(*(mca_coll_base_module_##slot##_fn_t)NULL) mca_coll_dma_##slot;
COLL_DMA_SLOTS(COLL_DMA_DO)
#undef COLL_DMA_DO

/* component.c: the process, made on first use. */
dma_status_t mca_coll_dma_proc_retain(dma_proc_t **proc);
void mca_coll_dma_proc_release(void);

/* params.c */
int mca_coll_dma_register_params(void);
void mca_coll_dma_params(dma_params_t *params);

/* literal.c: gives an include list that names dma the components it needs below it. */
int mca_coll_dma_extend_selection(void);

/* net.c: NULL: none, communicators stay inside nodes. */
struct dma_net_ops;
const struct dma_net_ops *mca_coll_dma_net_ops(void);
/* Nobody calls us any more for the network's sake. */
void mca_coll_dma_net_stop_polling(void);

/* module.c */
mca_coll_base_module_t *mca_coll_dma_comm_query(ompi_communicator_t *comm, int *priority);

/* prepare.c: module->comm, made on first use; local. */
dma_status_t mca_coll_dma_open(mca_coll_dma_module_t *module, ompi_communicator_t *comm);
/* Waits until the communicator is set up. DMA_OK: READY; DMA_UNSUPPORTED: ASIDE. */
dma_status_t mca_coll_dma_prepare(mca_coll_dma_module_t *module, ompi_communicator_t *comm);
/* Says once who serves the communicator, if that is decided. */
void mca_coll_dma_report_state(mca_coll_dma_module_t *module, ompi_communicator_t *comm);

/* progress.c: registers our progress callback if tasks of ours are under way, else removes it; `open` is false when the
 * component closes and nothing may call into it any more. */
void mca_coll_dma_poll(bool open);

/* layout.c */
dma_status_t mca_coll_dma_type_rows(const void *type, dma_rows_t *layout);
dma_status_t mca_coll_dma_type_strips(const void *type, dma_visit_t visit, void *arg);

/* services.c */
extern const dma_host_t mca_coll_dma_host;
/* The MPI error class of an error of ours. */
int mca_coll_dma_error_class(dma_status_t status);

#endif
