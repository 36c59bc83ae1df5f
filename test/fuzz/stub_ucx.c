/* See stub_ucx.h. */
#include "stub_ucx.h"

#include <stdlib.h>
#include <string.h>

#define MOST 256

/* An operation that progress ends, or a message that it delivers. */
typedef struct pending {
    void *request; /* what the caller got; NULL: a message that arrives */
    ucp_ep_h ep;
    ucp_request_param_t param;
    bool recv;
    size_t bytes, header_bytes;
    char header[64];
    void *data;
    bool rndv;
} pending_t;

/* An endpoint. */
typedef struct stub_ep {
    ucp_err_handler_t handler;
    bool broken, closed;
} stub_ep_t;

static dma_ucx_t *net;
static pending_t pending[MOST];
static unsigned npending, lent;
static stub_ep_t eps[MOST];
static unsigned neps;
static bool now;
static ucs_status_t end_status;

/* A request, or NULL for "done". */
static ucs_status_ptr_t begin(ucp_ep_h ep, const ucp_request_param_t *param, bool recv, size_t bytes)
{
    if (now || npending == MOST) {
        return NULL;
    }
    pending[npending] = (pending_t){.request = malloc(64), .ep = ep, .param = *param, .recv = recv, .bytes = bytes};
    lent++;
    return pending[npending++].request;
}

static void request_free(void *request)
{
    lent--;
    free(request);
}

static void data_release(ucp_worker_h worker, void *data)
{
    (void)worker;
    lent--;
    free(data);
}

static ucs_status_ptr_t recv_data(ucp_worker_h worker, void *descriptor, void *buffer, size_t bytes,
                                  const ucp_request_param_t *param)
{
    (void)worker;
    memset(buffer, 1, bytes);
    data_release(worker, descriptor);
    return begin(NULL, param, true, bytes);
}

static ucs_status_ptr_t send_am(ucp_ep_h ep, unsigned id, const void *header, size_t header_bytes, const void *data,
                                size_t bytes, const ucp_request_param_t *param)
{
    volatile unsigned sum = id;

    for (size_t i = 0; i < header_bytes; i++) {
        sum += ((const unsigned char *)header)[i]; /* a sanitizer notices if it cannot be read */
    }
    for (size_t i = 0; i < bytes; i++) {
        sum += ((const unsigned char *)data)[i];
    }
    return begin(ep, param, false, bytes);
}

static ucs_status_t create_ep(ucp_worker_h worker, const ucp_ep_params_t *params, ucp_ep_h *ep)
{
    (void)worker;
    if (neps == MOST || end_status == UCS_ERR_UNREACHABLE) {
        return UCS_ERR_UNREACHABLE;
    }
    eps[neps] = (stub_ep_t){.handler = params->err_handler};
    *ep = (ucp_ep_h)&eps[neps++];
    return UCS_OK;
}

static ucs_status_ptr_t close_ep(ucp_ep_h ep, const ucp_request_param_t *param)
{
    ((stub_ep_t *)ep)->closed = true;
    return begin(NULL, param, false, 0);
}

static ucs_status_ptr_t flush_ep(ucp_ep_h ep, const ucp_request_param_t *param)
{
    return begin(ep, param, false, 0);
}

static void end(pending_t *p)
{
    ucs_status_t status = p->ep && ((stub_ep_t *)p->ep)->closed ? UCS_ERR_CANCELED : end_status;
    void *arg = p->param.op_attr_mask & UCP_OP_ATTR_FIELD_USER_DATA ? p->param.user_data : NULL;

    if (p->recv) {
        p->param.cb.recv_am(p->request, status, p->bytes, arg);
    } else {
        p->param.cb.send(p->request, status, arg);
    }
}

static void deliver(pending_t *p)
{
    ucp_am_recv_param_t param = {.recv_attr = p->rndv ? UCP_AM_RECV_ATTR_FLAG_RNDV : UCP_AM_RECV_ATTR_FLAG_DATA};

    lent += p->data != NULL;
    if (dma_ucx_am_handler(net, p->header, p->header_bytes, p->data, p->bytes, &param) != UCS_INPROGRESS && p->data) {
        lent--;
        free(p->data);
    }
}

static unsigned progress(ucp_worker_h worker)
{
    pending_t p;

    (void)worker;
    for (unsigned i = 0; i < neps; i++) {
        if (eps[i].broken && !eps[i].closed) {
            eps[i].broken = false;
            eps[i].handler.cb(eps[i].handler.arg, (ucp_ep_h)&eps[i], UCS_ERR_CONNECTION_RESET);
        }
    }
    if (!npending) {
        return 0;
    }
    p = pending[0];
    memmove(pending, pending + 1, --npending * sizeof(p));
    if (p.request) {
        end(&p);
    } else {
        deliver(&p);
    }
    return npending;
}

static void destroy_worker(ucp_worker_h worker)
{
    (void)worker;
    while (npending--) { /* UCX ends nothing any more. What it holds is freed with it */
        lent -= pending[npending].request != NULL;
        free(pending[npending].request);
        free(pending[npending].data);
    }
    npending = 0;
}

static void cleanup(ucp_context_h context)
{
    (void)context;
}

static void print_ep(const ucp_ep_h ep, FILE *to)
{
    (void)ep;
    fputs("lane[0]: tcp/eth0", to);
}

static const char *status_string(ucs_status_t status)
{
    (void)status;
    return "an error";
}

void stub_open(dma_ucx_t *to)
{
    net = to;
    npending = neps = lent = 0;
    stub_behave(false, UCS_OK);
    dma_ucx_api.ucp_am_data_release = data_release;
    dma_ucx_api.ucp_am_recv_data_nbx = recv_data;
    dma_ucx_api.ucp_am_send_nbx = send_am;
    dma_ucx_api.ucp_cleanup = cleanup;
    dma_ucx_api.ucp_ep_close_nbx = close_ep;
    dma_ucx_api.ucp_ep_create = create_ep;
    dma_ucx_api.ucp_ep_flush_nbx = flush_ep;
    dma_ucx_api.ucp_ep_print_info = print_ep;
    dma_ucx_api.ucp_request_free = request_free;
    dma_ucx_api.ucp_worker_destroy = destroy_worker;
    dma_ucx_api.ucp_worker_progress = progress;
    dma_ucx_api.ucs_status_string = status_string;
}

void stub_behave(bool at_once, ucs_status_t status)
{
    now = at_once;
    end_status = status;
}

void stub_arrive(const void *header, size_t header_bytes, const void *data, size_t bytes, bool rndv)
{
    pending_t *p = &pending[npending];

    if (npending == MOST || header_bytes > sizeof(p->header)) {
        return;
    }
    *p = (pending_t){.header_bytes = header_bytes, .bytes = bytes, .rndv = rndv, .data = malloc(bytes ? bytes : 1)};
    memcpy(p->header, header, header_bytes);
    memcpy(p->data, data, rndv ? 0 : bytes);
    npending++;
}

void stub_break(ucp_ep_h ep)
{
    ((stub_ep_t *)ep)->broken = true;
}

bool stub_is_clean(void)
{
    return !lent;
}
