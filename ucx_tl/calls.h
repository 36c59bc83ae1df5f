/*
 * The functions of UCX that this layer calls, in a table that is filled at run time.
 *
 * Linking to UCX would load it into every process that loads the component. When UCX is loaded it replaces mmap, munmap and
 * other functions for the whole process, which a job on one node does not need, and a node without UCX could not load the
 * component at all. So UCX is loaded when the first communicator over several nodes needs it. It stays loaded until the process
 * ends, because the replaced functions cannot be restored safely.
 */
#ifndef DMA_UCX_CALLS_H
#define DMA_UCX_CALLS_H

#include <ucp/api/ucp.h>

#include "dma/status.h"

#define DMA_UCX_CALLS(X)                                                                                               \
    X(ucp_am_data_release)                                                                                             \
    X(ucp_am_recv_data_nbx)                                                                                            \
    X(ucp_am_send_nbx)                                                                                                 \
    X(ucp_cleanup)                                                                                                     \
    X(ucp_config_modify)                                                                                               \
    X(ucp_config_read)                                                                                                 \
    X(ucp_config_release)                                                                                              \
    X(ucp_context_print_info)                                                                                          \
    X(ucp_ep_close_nbx)                                                                                                \
    X(ucp_ep_create)                                                                                                   \
    X(ucp_ep_flush_nbx)                                                                                                \
    X(ucp_ep_print_info)                                                                                               \
    X(ucp_get_version)                                                                                                 \
    X(ucp_init_version)                                                                                                \
    X(ucp_request_free)                                                                                                \
    X(ucp_worker_create)                                                                                               \
    X(ucp_worker_destroy)                                                                                              \
    X(ucp_worker_get_address)                                                                                          \
    X(ucp_worker_progress)                                                                                             \
    X(ucp_worker_release_address)                                                                                      \
    X(ucp_worker_set_am_recv_handler)                                                                                  \
    X(ucs_status_string)

typedef struct dma_ucx_calls {
#define DMA_UCX_CALL(name) __typeof__(name) *name;
    DMA_UCX_CALLS(DMA_UCX_CALL)
#undef DMA_UCX_CALL
} dma_ucx_calls_t;

/* All NULL before dma_ucx_load has succeeded, constant after it. */
extern dma_ucx_calls_t dma_ucx_api;

/* DMA_UNSUPPORTED: UCX, or one of its functions, is missing; `why` is the reason, valid until the thread's next dlopen.
 * Thread-safe. */
dma_status_t dma_ucx_load(const char **why);

#endif
