/*
 * coll/dma as Open MPI sees it: a component (one per process) that makes a module for every communicator it may serve.
 *
 * A module owns the function slots it can serve and remembers what was in them: the module below. Nothing is set up
 * before a communicator's first collective: comm_query and enable run on every communicator of every job and cost an
 * allocation. In that first call the ranks agree whether the communicator is served; if not, its calls go to the module
 * below for good.
 */
#ifndef COLL_DMA_H
#define COLL_DMA_H

#include <pthread.h>
#include <stdbool.h>

#include "compat.h"

#include "dma/comm.h"

/* Messages of the set-up, on the user's communicator. Negative tags are invisible to users; Open MPI itself uses -1
 * (any tag) and everything from -7 down, in 4.1, 5.0 and 6.0. */
#define COLL_DMA_TAG (-5)

#define COLL_DMA_TOPICS 16 /* of warnings: each is shown once per process */

typedef struct mca_coll_dma_component {
    mca_coll_base_component_t super;

    int priority;
    int verbose;
    char *variant; /* as given; copied into params when the process is created */
    dma_params_t params;

    pthread_mutex_t lock; /* guards the next three */
    dma_proc_t *proc;     /* made by the first collective */
    unsigned comms;       /* communicators that proc has */
    bool polling;         /* our progress callback is registered */

    pthread_mutex_t said_lock; /* of its own: the core reports from inside calls that hold the other */
    char said[COLL_DMA_TOPICS][24];
} mca_coll_dma_component_t;

OMPI_DECLSPEC extern mca_coll_dma_component_t mca_coll_dma_component;

typedef enum mca_coll_dma_state {
    COLL_DMA_NEW,   /* no collective yet, or its set-up failed: then every call fails the same way */
    COLL_DMA_READY, /* served by us */
    COLL_DMA_ASIDE, /* agreed by all ranks: served by the module below */
} mca_coll_dma_state_t;

typedef struct mca_coll_dma_module {
    mca_coll_base_module_t super;

    mca_coll_dma_state_t state;
    dma_comm_t *comm;
    dma_status_t failed; /* could not even be created here */

    mca_coll_base_module_allgather_fn_t below_allgather;
    mca_coll_base_module_t *below_allgather_module;
} mca_coll_dma_module_t;

OBJ_CLASS_DECLARATION(mca_coll_dma_module_t);

/* component.c: the process, made on first use. */
dma_status_t mca_coll_dma_proc_retain(dma_proc_t **proc);
void mca_coll_dma_proc_release(void);

/* params.c */
int mca_coll_dma_register_params(void);
void mca_coll_dma_params(dma_params_t *params);

/* literal.c: gives an include list that names dma the components it needs below it. */
int mca_coll_dma_complete_selection(void);

/* module.c */
mca_coll_base_module_t *mca_coll_dma_comm_query(ompi_communicator_t *comm, int *priority);
/* Sets the communicator up in its first collective. DMA_OK: READY; DMA_UNSUPPORTED: ASIDE. */
dma_status_t mca_coll_dma_prepare(mca_coll_dma_module_t *module, ompi_communicator_t *comm);

/* allgather.c */
int mca_coll_dma_allgather(const void *sbuf, dma_count_t scount, struct ompi_datatype_t *stype, void *rbuf,
                           dma_count_t rcount, struct ompi_datatype_t *rtype, struct ompi_communicator_t *comm,
                           mca_coll_base_module_t *module);

/* progress.c: registers our progress callback if tasks of ours are under way, else removes it; `open` is false when the
 * component closes and nothing may call into it any more. */
void mca_coll_dma_poll(bool open);

/* services.c */
extern const dma_host_t mca_coll_dma_host;
/* The MPI error class of an error of ours. */
int mca_coll_dma_error_class(dma_status_t status);

#endif
