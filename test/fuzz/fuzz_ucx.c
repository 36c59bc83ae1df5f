/*
 * What ucx_tl gets from peers: addresses, and messages of any header, size and order, between calls of its own side.
 *
 * An input is a list of actions. Each takes the bytes that it needs. The side that is attacked keeps its contract: it does
 * not register a communicator twice, and waits for its requests before it ends.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "stub_ucx.h"

#define PEERS  4
#define REQS   32
#define COMMS  3
#define BUFFER 64

typedef struct state {
    const uint8_t *at, *end;
    dma_ucx_t *net;
    dma_ucx_peer_t *peers[PEERS];
    dma_ucx_req_t *reqs[REQS];
    char *buffers[REQS];
    bool comms[COMMS];
} state_t;

static unsigned take(state_t *s)
{
    return s->at < s->end ? *s->at++ : 0;
}

/* This number of bytes of the input, in memory of their own. The caller frees it. */
static void *take_some(state_t *s, size_t *bytes)
{
    size_t left = (size_t)(s->end - s->at);
    void *some;

    *bytes = *bytes < left ? *bytes : left;
    some = malloc(*bytes ? *bytes : 1);
    memcpy(some, s->at, *bytes);
    s->at += *bytes;
    return some;
}

/* Few values, so that receives and messages match. */
static dma_net_tag_t take_tag(state_t *s)
{
    unsigned a = take(s), b = take(s);

    return (dma_net_tag_t){.comm = a % COMMS, .owner = 7, .seq = a / 16 % 4, .step = b % 2, .note = b / 64};
}

static void create_peer(state_t *s)
{
    unsigned which = take(s) % PEERS;
    size_t bytes = take(s);
    void *address = take_some(s, &bytes);

    if (!s->peers[which]) {
        dma_ucx_peer_create(s->net, which + 1, address, bytes, &s->peers[which]);
    }
    free(address);
}

static void post(state_t *s, bool send)
{
    dma_ucx_peer_t *peer = s->peers[take(s) % PEERS];
    dma_net_tag_t tag = take_tag(s);
    size_t bytes = take(s) % (BUFFER + 1);
    unsigned i = 0;
    char *buffer;
    dma_status_t status;

    while (i < REQS && s->reqs[i]) {
        i++;
    }
    if (i == REQS || !peer) {
        return;
    }
    buffer = calloc(1, bytes ? bytes : 1);
    status = send ? dma_ucx_isend(s->net, peer, &tag, buffer, bytes, &s->reqs[i])
                  : dma_ucx_irecv(s->net, peer, &tag, buffer, bytes, &s->reqs[i]);
    if (status == DMA_OK) {
        s->buffers[i] = buffer;
    } else {
        s->reqs[i] = NULL;
        free(buffer);
    }
}

/* A header of known values, or of any bytes. */
static void arrive(state_t *s)
{
    unsigned how = take(s);
    size_t bytes = take(s) % (2 * BUFFER), header_bytes = how & 1 ? 64 : sizeof(dma_ucx_header_t);
    dma_ucx_header_t header = {.tag = take_tag(s), .kind = how >> 5, .key = how / 2 % (PEERS + 2)};
    void *raw = how & 1 ? take_some(s, &header_bytes) : NULL;
    void *data = calloc(1, bytes + 1);

    stub_arrive(raw ? raw : &header, header_bytes, data, bytes, how & 16);
    free(raw);
    free(data);
}

static void test_all(state_t *s)
{
    for (unsigned i = 0; i < REQS; i++) {
        if (s->reqs[i] && dma_ucx_test(s->net, &s->reqs[i]) != DMA_AGAIN) {
            free(s->buffers[i]);
            s->reqs[i] = NULL;
        }
    }
}

static void registers(state_t *s, bool on)
{
    unsigned comm = take(s) % COMMS;

    if (on && !s->comms[comm]) {
        dma_ucx_comm_register(s->net, comm, 7);
    } else if (!on) {
        dma_ucx_comm_unregister(s->net, comm, 7);
    }
    s->comms[comm] = on;
}

static void act(state_t *s)
{
    static const ucs_status_t ends[] = {
        UCS_OK, UCS_OK, UCS_ERR_NO_MEMORY, UCS_ERR_CONNECTION_RESET, UCS_ERR_UNREACHABLE, UCS_ERR_CANCELED};
    unsigned which, what = take(s) % 12;

    switch (what) {
    case 0:
        create_peer(s);
        break;
    case 1:
    case 2:
        registers(s, what == 1);
        break;
    case 3:
    case 4:
        post(s, what == 3);
        break;
    case 5:
    case 6:
        arrive(s);
        break;
    case 7:
        dma_ucx_progress(s->net);
        break;
    case 8:
        test_all(s);
        break;
    case 9:
    case 10:
        which = take(s) % REQS;
        if (s->reqs[which]) {
            (what == 9 ? dma_ucx_cancel : dma_ucx_abort)(s->net, s->reqs[which]);
        }
        break;
    default:
        which = take(s);
        stub_behave(which & 1, ends[which / 2 % 6]);
        if (which >= 128 && s->peers[which % PEERS] && s->peers[which % PEERS]->ep) {
            stub_break(s->peers[which % PEERS]->ep);
        }
        break;
    }
}

/* As dma_ucx_create leaves it, except that UCX does not exist. */
static dma_ucx_t *open_net(void)
{
    dma_ucx_t *net = calloc(1, sizeof(*net));

    net->config = (dma_ucx_config_t){.key = 1000, .keepalive_seconds = 10, .processes = 2, .local_processes = 1};
    net->hello = (dma_ucx_header_t){.kind = DMA_UCX_HELLO, .key = 1000};
    net->goodbye = (dma_ucx_header_t){.kind = DMA_UCX_GOODBYE, .key = 1000};
    net->abort = (dma_ucx_header_t){.kind = DMA_UCX_ABORT, .key = 1000};
    net->matched_tail = &net->matched;
    dma_ucx_watch_init(&net->watch, 10, true); /* the kernel watches, and there is no kernel */
    pthread_mutex_init(&net->lock, NULL);
    stub_open(net);
    return net;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    state_t s = {.at = data, .end = data + bytes, .net = open_net()};
    bool busy = true;

    while (s.at < s.end) {
        act(&s);
    }
    stub_behave(true, UCS_OK);
    for (int turns = 0; busy; turns++) {
        FUZZ_MUST(turns < 1000); /* every request ends */
        busy = false;
        for (unsigned i = 0; i < REQS; i++) {
            if (s.reqs[i]) {
                dma_ucx_cancel(s.net, s.reqs[i]);
                dma_ucx_abort(s.net, s.reqs[i]);
                busy = true;
            }
        }
        dma_ucx_progress(s.net);
        test_all(&s);
    }
    for (unsigned i = 0; i < COMMS; i++) {
        dma_ucx_comm_unregister(s.net, i, 7);
    }
    dma_ucx_destroy(s.net);
    FUZZ_MUST(stub_is_clean());
    return 0;
}
