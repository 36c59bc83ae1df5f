/*
 * Registers the counters of dma/counters.h as performance variables: coll_dma_<name> for the process, and for those that are
 * counted for each communicator coll_dma_comm_<name>, which a tool binds to a communicator.
 *
 * Open MPI reads a variable when a handle is made and when it is read, and shows the difference. So a tool sees what has
 * happened since it made its handle.
 */
#include "coll_dma.h"

/* `which` is the variable's context. For a bound variable `object` is the communicator. */
static int get_value(const struct mca_base_pvar_t *pvar, void *value, void *object)
{
    *(unsigned long long *)value =
        dma_counters_read(&mca_coll_dma_component.counters, (int)(intptr_t)pvar->ctx, object);
    return OPAL_SUCCESS;
}

static int class_of(dma_counter_kind_t kind)
{
    return DMA_COUNTER_EVENTS == kind  ? MCA_BASE_PVAR_CLASS_COUNTER
           : DMA_COUNTER_BYTES == kind ? MCA_BASE_PVAR_CLASS_AGGREGATE
           : DMA_COUNTER_LEVEL == kind ? MCA_BASE_PVAR_CLASS_SIZE
                                       : MCA_BASE_PVAR_CLASS_TIMER;
}

static int register_variable(const dma_counter_t *counter, const char *name, int bind)
{
    return mca_base_component_pvar_register(
        &mca_coll_dma_component.super.collm_version, name, counter->help, OPAL_INFO_LVL_9, class_of(counter->kind),
        MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, NULL, bind, MCA_BASE_PVAR_FLAG_READONLY | MCA_BASE_PVAR_FLAG_CONTINUOUS,
        get_value, NULL, NULL, (void *)(intptr_t)counter->which);
}

int mca_coll_dma_register_counters(void)
{
    dma_counter_t counter;
    char name[sizeof(counter.name) + sizeof("comm_")];
    int index;

    for (size_t i = 0; dma_counter_describe(i, &counter); i++) {
        if ((index = register_variable(&counter, counter.name, MCA_BASE_VAR_BIND_NO_OBJECT)) < 0) {
            return index;
        }
        snprintf(name, sizeof(name), "comm_%s", counter.name);
        if (counter.of_comm && (index = register_variable(&counter, name, MCA_BASE_VAR_BIND_MPI_COMM)) < 0) {
            return index;
        }
    }
    return OMPI_SUCCESS;
}
