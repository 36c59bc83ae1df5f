/* Calls on memory of any kind: see libengine_call.h. */
#include "libengine_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device/device.h"
#include "libunit.h"
#include "plan/gpu/profile.h"

#define GUARD 96 /* bytes on both sides of a buffer that must not change */

/* The allocator of the fake runtime serves one thread only. */
static pthread_mutex_t alloc_lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t mix(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t x = a * UINT64_C(0x9e3779b97f4a7c15) + b * UINT64_C(0xbf58476d1ce4e5b9) + c + unit_seed();

    x = (x ^ (x >> 30)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* Elements that rank s sends to rank d. Blocks may be empty, except those of rank 0, so that every call moves something. */
static size_t elements(const call_spec_t *spec, int s, int d)
{
    int low = s < d ? s : d, high = s < d ? d : s;
    uint64_t h;

    switch (spec->elements ? dma_coll_sizes(spec->coll) : DMA_SIZES_EQUAL) {
    case DMA_SIZES_SHARED:
        h = mix(spec->sizes, (uint64_t)s, 1);
        low = s;
        break;
    case DMA_SIZES_OWN:
        /* in place the blocks of a pair are equal */
        h = spec->in_place ? mix(spec->sizes, (uint64_t)low, (uint64_t)high + 100)
                           : mix(spec->sizes, (uint64_t)s, (uint64_t)d + 100);
        break;
    default:
        return spec->elements;
    }
    return low && h % 5 == 0 ? 0 : 1 + (size_t)(h >> 8) % spec->elements;
}

static bool is_v(dma_coll_t coll)
{
    return dma_coll_sizes(coll) != DMA_SIZES_EQUAL;
}

static void buffer_get(const rank_t *r, call_buffer_t *b)
{
    static const dma_gpu_kind_t kinds[] = {[PLACE_DEVICE] = DMA_GPU_DEVICE_PLAIN,
                                           [PLACE_FINE] = DMA_GPU_DEVICE_FINE,
                                           [PLACE_AWAY] = DMA_GPU_DEVICE_PLAIN,
                                           [PLACE_PINNED] = DMA_GPU_HOST_PINNED,
                                           [PLACE_MANAGED] = DMA_GPU_MANAGED};
    size_t bytes = b->bytes + 2 * GUARD + 64;

    if (b->place == PLACE_HOST) {
        b->base = malloc(bytes);
    } else if (b->place == PLACE_MAPPED) {
        b->base = fake_gpu_map(r->rank, bytes, 1, true);
    } else {
        pthread_mutex_lock(&alloc_lock);
        b->base =
            fake_gpu_alloc(kinds[b->place], b->place == PLACE_AWAY ? (r->rank + 1) % ENGINE_DEVICES : r->rank, bytes);
        pthread_mutex_unlock(&alloc_lock);
    }
    b->at = b->base + GUARD + r->rank % 3;
}

static void buffer_put(const call_buffer_t *b)
{
    if (!b->base) {
        return;
    }
    if (b->place == PLACE_HOST) {
        free(b->base);
    } else if (b->place == PLACE_MAPPED) {
        fake_gpu_unmap(b->base);
    } else {
        pthread_mutex_lock(&alloc_lock);
        fake_gpu_free(b->base);
        pthread_mutex_unlock(&alloc_lock);
    }
}

/* One side: counts, and displacements with gaps, in an order that differs between ranks. Returns its bytes. */
static size_t lay_out(rank_t *r, const call_t *c, bool sends, int *counts, int *displs)
{
    int n = sends && dma_coll_gathers(c->spec.coll) ? 1 : r->n, rank = r->rank, first = rank % n;
    int at = 0;

    for (int i = 0; i < n; i++) {
        int b = is_v(c->spec.coll) ? (first + i) % n : i;

        counts[b] = (int)(sends ? elements(&c->spec, rank, b) : elements(&c->spec, b, rank));
        displs[b] = at;
        at += counts[b] + (is_v(c->spec.coll) ? (int)threads_random(r, 20) : 0);
    }
    return (size_t)at * (size_t)(c->spec.vector ? c->type.stride : 1);
}

static dma_side_t side_of(const call_t *c, void *addr, bool sends, const int *counts, const int *displs)
{
    bool vector = c->spec.vector;
    dma_side_t side = {.addr = addr,
                       .dense = !vector,
                       .width = sizeof(int),
                       .size = vector ? c->type.piece : 1,
                       .extent = vector ? (ptrdiff_t)c->type.stride : 1,
                       .lb = 0,
                       .ub = vector ? (ptrdiff_t)c->type.piece : 1,
                       .type = (void *)(uintptr_t)&c->type,
                       .count = (size_t)counts[0]};

    if (is_v(c->spec.coll) && !(sends && dma_coll_gathers(c->spec.coll))) {
        side.counts = counts;
        side.displs = displs;
    }
    return side;
}

static void point(call_t *c)
{
    c->call.recv.addr = c->recv.at;
    c->call.send.addr = c->send.at;
}

call_t *call_make(rank_t *r, const call_spec_t *spec)
{
    call_t *c = calloc(1, sizeof(*c));

    c->spec = *spec;
    c->type = (vector_type_t){.piece = 3, .stride = 5};
    c->recv = (call_buffer_t){.place = spec->recv};
    c->recv.bytes = lay_out(r, c, false, c->recv_counts, c->recv_displs);
    buffer_get(r, &c->recv);
    c->call = (dma_call_t){.coll = spec->coll, .in_place = spec->in_place};
    c->call.recv = side_of(c, NULL, false, c->recv_counts, c->recv_displs);
    if (!spec->in_place) {
        c->send = (call_buffer_t){.place = spec->send};
        c->send.bytes = lay_out(r, c, true, c->send_counts, c->send_displs);
        buffer_get(r, &c->send);
        c->call.send = side_of(c, NULL, true, c->send_counts, c->send_displs);
    }
    point(c);
    return c;
}

void call_free(call_t *c)
{
    buffer_put(&c->recv);
    buffer_put(&c->send);
    free(c);
}

void call_move(rank_t *r, call_t *c, bool same)
{
    char *old = c->recv.base;

    if (c->recv.place == PLACE_MAPPED && same) {
        for (size_t at = 0; at < c->recv.bytes + 2 * GUARD + 64; at += 4096) {
            fake_gpu_remap(old, (unsigned)(at / 4096));
        }
        return;
    }
    must(r, c->recv.place == PLACE_DEVICE, "only plain device memory moves");
    pthread_mutex_lock(&alloc_lock);
    if (!same) {
        char *hole;

        fake_gpu_free(old);
        hole = fake_gpu_alloc(DMA_GPU_DEVICE_PLAIN, r->rank, c->recv.bytes + 2 * GUARD + 64);
        c->recv.base = fake_gpu_alloc(DMA_GPU_DEVICE_PLAIN, r->rank, c->recv.bytes + 2 * GUARD + 64);
        fake_gpu_free(hole);
    } else {
        fake_gpu_free_for_next(old);
        c->recv.base = fake_gpu_alloc(DMA_GPU_DEVICE_PLAIN, r->rank, c->recv.bytes + 2 * GUARD + 64);
    }
    pthread_mutex_unlock(&alloc_lock);
    c->recv.at = c->recv.base + GUARD + r->rank % 3;
    point(c);
}

static void put_block(const call_t *c, char *to, int displ, int s, int d)
{
    size_t bytes = elements(&c->spec, s, d) * (c->spec.vector ? c->type.piece : 1);
    size_t piece = c->spec.vector ? c->type.piece : bytes, stride = c->spec.vector ? c->type.stride : 1;
    int key = 16 * s + (dma_coll_gathers(c->spec.coll) ? 0 : d);

    for (size_t at = 0; at < bytes; at += piece) {
        data_fill_from((uint8_t *)to + ((size_t)displ + at / piece) * stride, c->tag, key, at, piece);
    }
}

void call_fill(rank_t *r, call_t *c, uint64_t tag)
{
    bool gathers = dma_coll_gathers(c->spec.coll);

    c->tag = tag;
    memset(c->recv.base, 0xee, c->recv.bytes + 2 * GUARD);
    if (!c->spec.in_place) {
        memset(c->send.base, 0xdd, c->send.bytes + 2 * GUARD);
        for (int d = 0; d < (gathers ? 1 : r->n); d++) {
            put_block(c, c->send.at, c->send_displs[d], r->rank, d);
        }
    } else if (gathers) {
        put_block(c, c->recv.at, c->recv_displs[r->rank], r->rank, r->rank);
    } else {
        for (int d = 0; d < r->n; d++) {
            put_block(c, c->recv.at, c->recv_displs[d], r->rank, d);
        }
    }
}

void call_verify(rank_t *r, call_t *c)
{
    size_t all = c->recv.bytes + 2 * GUARD;
    char *want = malloc(all);

    memset(want, 0xee, all);
    for (int s = 0; s < r->n; s++) {
        put_block(c, want + (c->recv.at - c->recv.base), c->recv_displs[s], s, r->rank);
    }
    for (size_t i = memcmp(c->recv.base, want, all) ? 0 : all; i < all; i++) {
        must(r, c->recv.base[i] == want[i], "use %llu of operation %d%s: byte %zd of %zu is %02x, should be %02x",
             (unsigned long long)c->tag, c->spec.coll, c->spec.in_place ? " in place" : "",
             (ptrdiff_t)i - (c->recv.at - c->recv.base), c->recv.bytes, (uint8_t)c->recv.base[i], (uint8_t)want[i]);
    }
    free(want);
}

dma_status_t call_try(rank_t *r, dma_comm_t *comm, call_t *c, uint64_t tag)
{
    call_fill(r, c, tag);
    return dma_comm_run(comm, &c->call);
}

void call_run(rank_t *r, dma_comm_t *comm, call_t *c, uint64_t tag)
{
    dma_status_t status = call_try(r, comm, c, tag);

    must(r, status == DMA_OK, "use %llu: %s: %s", (unsigned long long)tag, dma_status_name(status),
         dma_comm_reason(comm));
    call_verify(r, c);
    if (!c->spec.in_place) {
        memset(c->send.base, 0x55, c->send.bytes + 2 * GUARD); /* a reader that comes late gets wrong bytes */
    }
}

/* ---- jobs ---- */

static unsigned streams_late_us;

void call_streams_late(unsigned us)
{
    streams_late_us = us;
}

/* A profile by which the model arms what can be armed: waiting takes no time. The built-in one sees no gain for so few ranks. */
static const char *always_armed(void)
{
    static char path[64];
    dma_gpu_profile_t p = dma_gpu_profile_default();
    int fd;

    if (path[0]) {
        return path;
    }
    fd = memfd_create("profile", MFD_CLOEXEC);
    p.trigger_ps = p.armed_ps = 0;
#define LINE(name, value, help) dprintf(fd, "%s %llu\n", #name, (unsigned long long)p.name);
    DMA_GPU_PROFILE_FIELDS(LINE)
#undef LINE
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(), fd);
    return path;
}

job_t call_job(int n, void (*body)(rank_t *r), const engine_options_t *options)
{
    job_t job = threads_job(n, body);
    fake_gpu_options_t machine = {.devices = ENGINE_DEVICES, .seed = unit_seed(), .late_us = streams_late_us};
    engine_options_t all = {.seed = unit_seed(),
                            .features = DMA_GPU_SWAP_PACKETS | DMA_GPU_BCST_PACKETS | DMA_GPU_PRELAUNCH,
                            .max_ways = 16};

    engine_begin(options ? options : &all);
    job.params.gpu_profile = always_armed();
    job.runtime = fake_gpu_start(&machine);
    job.engines = engine_list;
    job.ending = fake_gpu_ending;
    return job;
}

job_t call_job_without_engine(int n, void (*body)(rank_t *r), const void *arg)
{
    job_t job = call_job(n, body, NULL);

    snprintf(job.params.engine, sizeof(job.params.engine), "none");
    job.arg = arg;
    job.own_counters = true;
    return job;
}

uint64_t call_counted(const rank_t *r, int which)
{
    return dma_counters_read(r->proc->counters, which, NULL);
}

void call_run_job(job_t *job)
{
    threads_run(job);
    engine_end();
    fake_gpu_stop();
}

uint32_t call_runs(const dma_comm_t *comm)
{
    return comm->device && comm->device->epoch ? comm->device->epoch - comm->first_epoch : 0;
}

bool call_stream_moves(const rank_t *r, const dma_gpu_runtime_t *rt, void *stream)
{
    dma_gpu_scope_t scope;
    dma_status_t status;

    must(r, rt->enter(r->rank, &scope) == DMA_OK, "enter");
    status = rt->stream_query(stream);
    rt->leave(&scope);
    return status == DMA_AGAIN;
}
