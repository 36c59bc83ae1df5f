/*
 * Processes of the job that have not loaded coll/dma, because they run with other parameters, or on a host without it. Each process
 * that has publishes its terms (terms.c), before any process returns from MPI_Init. So a process that has published none has not.
 * That of rank 0 is noticed when a communicator is made; this file is about the others.
 *
 *     a call that waits for the set-up     asks nothing, until the set-up has waited for a second (core/absent.c). Nearly always it ends
 *                                          much sooner
 *     a first call that does not wait      looks at what is known on this node, some 25 us for each other process, because such a
 *                                          call cannot go to the next component any more when it has been posted
 *
 * What was found is kept for the job. If Open MPI was told to collect nothing in MPI_Init (pmix_base_collect_data 0, up to 5.0 also
 * pmix_base_async_modex 1), nothing is known on the node. With 5.0 a node does not know about processes of other nodes, so for a
 * communicator over several nodes nothing is known there either. Then the second one finds only what was found before, and the first
 * one asks the servers of the processes.
 */
#include "coll_dma.h"

#include <stdlib.h>

enum { UNKNOWN, LOADED, ABSENT };

/* With the lock. */
static bool make_room(ompi_communicator_t *comm)
{
    mca_coll_dma_component_t *component = &mca_coll_dma_component;
    uint32_t n = component->nloaded;
    uint8_t *more;

    for (int rank = 0; rank < ompi_comm_size(comm); rank++) {
        uint32_t vpid = mca_coll_dma_name_of(comm, rank).vpid;

        n = vpid >= n ? vpid + 1 : n;
    }
    if (n > component->nloaded) {
        if (!(more = realloc(component->loaded, n))) {
            return false;
        }
        memset(more + component->nloaded, UNKNOWN, n - component->nloaded);
        component->loaded = more;
        component->nloaded = n;
    }
    return true;
}

/* Rank 0 of the job has loaded it, because otherwise there would be no module. */
static uint8_t find_out(const ompi_process_name_t *name, bool here, bool nodes, bool patient)
{
    bool obvious = 0 == name->vpid || OMPI_PROC_MY_NAME->vpid == name->vpid;
    dma_modex_t published = obvious ? DMA_MODEX_THERE : dma_modex_has(COLL_DMA_KEY, name, here, nodes, patient);

    return DMA_MODEX_UNKNOWN == published ? UNKNOWN : DMA_MODEX_THERE == published ? LOADED : ABSENT;
}

/* PMIx may take seconds, and calls of other threads need the lock. So it is asked without the lock, about one process perhaps by
 * two threads, who get the same answer. */
static uint8_t state_of(ompi_communicator_t *comm, int rank, bool nodes, bool patient)
{
    mca_coll_dma_component_t *component = &mca_coll_dma_component;
    ompi_process_name_t name = mca_coll_dma_name_of(comm, rank);
    uint8_t state;

    pthread_mutex_lock(&component->lock);
    state = component->loaded[name.vpid];
    pthread_mutex_unlock(&component->lock);
    if (UNKNOWN == state && UNKNOWN != (state = find_out(&name, mca_coll_dma_is_here(comm, rank), nodes, patient))) {
        pthread_mutex_lock(&component->lock);
        component->loaded[name.vpid] = state;
        pthread_mutex_unlock(&component->lock);
    }
    return state;
}

/* The lowest rank that has not loaded coll/dma. If processes cannot publish anything, none is found. */
static int find_absent(ompi_communicator_t *comm, bool nodes, bool patient)
{
    mca_coll_dma_component_t *component = &mca_coll_dma_component;
    bool room;

    if (!component->published) {
        return -1;
    }
    pthread_mutex_lock(&component->lock);
    room = make_room(comm);
    pthread_mutex_unlock(&component->lock);
    for (int rank = 0; room && rank < ompi_comm_size(comm); rank++) {
        if (ABSENT == state_of(comm, rank, nodes, patient)) {
            component->some_absent = true;
            return rank;
        }
    }
    return -1;
}

int mca_coll_dma_find_absent(void *comm)
{
    return find_absent(comm, true, true);
}

void mca_coll_dma_look(mca_coll_dma_module_t *module, ompi_communicator_t *comm)
{
    dma_comm_state_t state;
    int absent;

    if (DMA_OK != mca_coll_dma_comm_open(module, comm)) {
        return; /* the call fails */
    }
    state = dma_comm_state(module->comm);
    if ((DMA_COMM_NEW == state || DMA_COMM_FIRST == state) &&
        (absent = find_absent(comm, module->multi_node, false)) >= 0) {
        dma_comm_leave(module->comm, absent);
        mca_coll_dma_report_state(module, comm);
    }
    module->left = dma_comm_is_left(module->comm);
    module->looked = true;
}

void mca_coll_dma_forget_absent(void)
{
    mca_coll_dma_component_t *component = &mca_coll_dma_component;

    free(component->loaded);
    component->loaded = NULL;
    component->nloaded = 0;
    component->some_absent = false;
}
