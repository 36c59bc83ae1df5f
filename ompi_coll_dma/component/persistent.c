/*
 * Persistent calls: *_init is collective and may wait; MPI_Start is local. Each request has a channel of its own, so requests
 * may be started in any order, and in different orders on different ranks.
 */
#include <stdlib.h>

#include "buffer.h"
#include "request.h"

#include "dma/parts.h"

/* What the caller asks for partitions; NULL: nothing. */
static dma_parts_t *find_parts(struct ompi_info_t *info)
{
    char text[2 * sizeof(uintptr_t) + 1], *end;
    dma_parts_t *parts;

    if (!dma_info_get(info, DMA_PARTS_KEY, text, sizeof(text))) {
        return NULL;
    }
    parts = (dma_parts_t *)(uintptr_t)strtoull(text, &end, 16);
    return parts && !*end && parts->magic == DMA_PARTS_MAGIC ? parts : NULL;
}

/* `request` NULL: there was no memory for it. Then the communicator fails, because the other ranks create their channels. */
static dma_status_t create_channel(mca_coll_dma_module_t *module, ompi_communicator_t *comm, const dma_call_t *call,
                                   mca_coll_dma_request_t *request)
{
    dma_status_t status = mca_coll_dma_comm_setup(module, comm);

    if (DMA_OK != status && DMA_UNSUPPORTED != status) {
        return status;
    }
    if (!request) {
        dma_comm_fail_call(module->comm, DMA_ERR_NOMEM);
        return DMA_ERR_NOMEM;
    }
    return dma_channel_create(module->comm, call, mca_coll_dma_request_complete, request, &request->channel);
}

static int init(mca_coll_base_module_t *base, ompi_communicator_t *comm, const dma_call_t *call,
                ompi_request_t **result)
{
    mca_coll_dma_module_t *module = (mca_coll_dma_module_t *)base;
    mca_coll_dma_request_t *request = mca_coll_dma_request_alloc(module, comm, true);
    dma_status_t status = request ? DMA_OK : DMA_ERR_NOMEM;

    if (!dma_call_empty(call, ompi_comm_size(comm))) {
        status = create_channel(module, comm, call, request);
    }
    if (DMA_OK != status) {
        if (request) {
            mca_coll_dma_request_discard(request);
        }
        *result = MPI_REQUEST_NULL;
        return mca_coll_dma_error_class(status);
    }
    mca_coll_dma_request_retain_comm(request);
    mca_coll_dma_request_retain_types(request);
    *result = &request->super.super;
    return MPI_SUCCESS;
}

/* Does the module below make the request? That is so if a rank has not loaded coll/dma. Waits for the set-up. An error is found
 * again when the channel is made. */
static bool goes_below(mca_coll_base_module_t *base, ompi_communicator_t *comm, const dma_call_t *call)
{
    mca_coll_dma_module_t *module = (mca_coll_dma_module_t *)base;

    if (!dma_call_empty(call, ompi_comm_size(comm))) {
        (void)mca_coll_dma_comm_setup(module, comm);
    } else if (!module->looked) {
        mca_coll_dma_look(module, comm);
    }
    return module->left;
}

/* The function of each operation. Only blocks of one size have partitions. */
#define STARTED(id, text, function, name, sends, sizes, from, to)                                                      \
    int mca_coll_dma_##function##_init(COLL_DMA_PARAMS(from, to), struct ompi_info_t *info, ompi_request_t **request,  \
                                       mca_coll_base_module_t *base)                                                   \
    {                                                                                                                  \
        const mca_coll_dma_below_t *below = &((mca_coll_dma_module_t *)base)->below;                                   \
        dma_call_t call = {.in_place = false};                                                                         \
                                                                                                                       \
        COLL_DMA_SET(&call, id, from, to);                                                                             \
        call.parts = DMA_SIZES_EQUAL == DMA_SIZES_##sizes ? find_parts(info) : NULL;                                   \
        if (OPAL_UNLIKELY(coll_dma_has_negative_count(&call, ompi_comm_size(comm)))) {                                 \
            return MPI_ERR_COUNT;                                                                                      \
        }                                                                                                              \
        if (goes_below(base, comm, &call)) {                                                                           \
            return below->function##_init(COLL_DMA_ARGS(sbuf, from, rbuf, to), info, request,                          \
                                          below->function##_init_module);                                              \
        }                                                                                                              \
        return init(base, comm, &call, request);                                                                       \
    }
DMA_COLLS(STARTED)
