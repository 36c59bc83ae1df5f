/*
 * Blocks with a shape in device memory: ranks as threads, a fake runtime, and an engine that does what its contract says
 * with memcpy. Every rank has elements and gaps of its own. The engines of all ranks copy between
 * shapes, or those of some ranks, or none; then blocks are packed inside the devices. In each case the data arrive and nothing
 * else changes.
 */
#include <stdlib.h>
#include <string.h>

#include "cluster/relay.h"
#include "device/device.h"
#include "libgpu_fake.h"
#include "libthreads.h"
#include "libunit.h"

#define MOST_RANKS 4
#define MARGIN     64
#define CALLS      60

/* ---- the engine ---- */

typedef struct fake_unit {
    int device;
} fake_unit_t;

typedef struct fake_binding {
    int rank;
} fake_binding_t;

static int scale = 1;                /* blocks are so many times as large */
static uint64_t scratch_bytes;       /* the bound, if it is not 0 */
static unsigned shaped;              /* bit mask of devices whose engines copy between shapes */
static _Atomic unsigned runs, rects; /* what engines have been given */

static dma_status_t fake_open(const dma_gpu_config_t *config, dma_gpu_unit_t **result, char *why)
{
    fake_unit_t *unit = calloc(1, sizeof(*unit));

    (void)why;
    unit->device = config->device;
    *result = (dma_gpu_unit_t *)unit;
    return DMA_OK;
}

static void fake_close(dma_gpu_unit_t *unit)
{
    free(unit);
}

static void fake_traits(const dma_gpu_unit_t *handle, dma_gpu_traits_t *traits)
{
    const fake_unit_t *unit = (const fake_unit_t *)handle;

    *traits = (dma_gpu_traits_t){.max_ways = 4, .features = shaped >> unit->device & 1 ? DMA_GPU_SHAPES : 0};
}

static dma_status_t fake_bind(dma_gpu_unit_t *unit, const dma_gpu_bind_params_t *job, dma_gpu_binding_t **result,
                              char *why)
{
    fake_binding_t *binding = calloc(1, sizeof(*binding));

    (void)unit;
    (void)why;
    binding->rank = job->rank;
    *result = (dma_gpu_binding_t *)binding;
    return DMA_OK;
}

static bool fake_unbind(dma_gpu_binding_t *binding)
{
    free(binding);
    return true;
}

static dma_location_t operand(const dma_run_t *run, const dma_operand_t *o, uint64_t skip)
{
    const dma_target_t *t = &run->targets[o->rank];
    const dma_shape_t *shape = o->base == DMA_BASE_SEND ? run->shape : t->shape;

    return (dma_location_t){.addr = o->base == DMA_BASE_SEND
                                        ? (uint64_t)(uintptr_t)dma_blocks_addr(&run->send, (uint64_t)o->block)
                                        : dma_target_addr(t, (uint64_t)o->block),
                            .skip = o->offset + skip + (o->base == DMA_BASE_SEND ? run->shape_skip : t->skip),
                            .shape = shape ? *shape : (dma_shape_t){0}};
}

static void copy(const dma_location_t *dst, const dma_location_t *src, uint64_t bytes)
{
    dma_cut_t cut;
    dma_rect_t r;

    for (dma_cut_begin(&cut, dst, src, bytes); dma_cut_next(&cut, &r);) {
        rects += r.rows > 1;
        for (uint64_t row = 0; row < r.rows; row++) {
            memcpy((char *)(uintptr_t)(r.dst + row * r.dst_pitch), (char *)(uintptr_t)(r.src + row * r.src_pitch),
                   r.row_bytes);
        }
    }
}

static dma_status_t fake_start(dma_run_t *run)
{
    const fake_binding_t *binding = (const fake_binding_t *)run->binding;

    runs++;
    for (uint32_t i = 1; i < run->plan->nprogs; i++) {
        for (uint32_t k = 0; k < run->plan->progs[i].nops; k++) {
            const dma_op_t *op = &run->plan->progs[i].ops[k];
            uint64_t skip, bytes = dma_run_length(run, &op->len, &skip);

            for (int d = 0; d < 2 && (op->code == DMA_OP_COPY || op->code == DMA_OP_COPY2); d++) {
                dma_location_t src = operand(run, &op->src, skip), dst = operand(run, &op->dst[d], skip);

                copy(&dst, &src, bytes);
                if (op->code == DMA_OP_COPY) {
                    break;
                }
            }
        }
        atomic_store_explicit(&dma_window_queue(run->window, binding->rank, (int)i - 1)->word, run->epoch,
                              memory_order_release);
    }
    return DMA_OK;
}

static dma_status_t fake_check(dma_gpu_binding_t *binding, const char **reason)
{
    (void)binding;
    *reason = "";
    return DMA_OK;
}

static const dma_gpu_engine_t engine = {.name = "fake",
                                        .open = fake_open,
                                        .close = fake_close,
                                        .traits = fake_traits,
                                        .bind = fake_bind,
                                        .unbind = fake_unbind,
                                        .start = fake_start,
                                        .check = fake_check};
static const dma_gpu_engine_t *const engines[] = {&engine, NULL};

/* ---- calls ---- */

/* One side: a buffer in device memory with a block for each of n ranks. */
typedef struct buffer {
    vector_type_t type;
    int n, counts[MOST_RANKS], displs[MOST_RANKS];
    size_t bytes;
    uint8_t *memory, *want; /* with margins */
} buffer_t;

typedef struct call {
    dma_coll_t coll;
    bool in_place, uneven;
    int unit, multiple; /* every block has a multiple of `unit` bytes */
    uint64_t tag;
} call_t;

static int bytes_between(const call_t *c, int from, int to)
{
    if (!c->uneven) {
        return c->unit * c->multiple;
    }
    return c->unit * ((c->multiple + from + (dma_coll_gathers(c->coll) ? 0 : 3 * to)) % 4);
}

static uint64_t tag(const call_t *c, int to)
{
    return c->tag * 16 + (dma_coll_gathers(c->coll) ? 0 : (uint64_t)to + 1);
}

static uint8_t *at(const buffer_t *b, uint8_t *memory, int block, long byte)
{
    long element = byte / (long)b->type.piece + b->displs[block];

    return memory + MARGIN + element * (long)b->type.stride + byte % (long)b->type.piece;
}

static void put(const buffer_t *b, uint8_t *memory, const call_t *c, int block, int from, int to)
{
    for (int i = 0; i < bytes_between(c, from, to); i++) {
        *at(b, memory, block, i) = data_byte(tag(c, to), from, (uint64_t)i);
    }
}

/* After the first call, some buffers are memory that peers cannot open, or of another device. */
static bool odd_memory;

static uint8_t *device_memory(rank_t *r, const call_t *c, size_t bytes)
{
    uint32_t odd = odd_memory && c->tag != unit_seed() ? threads_random(r, 4) : 0;

    return fake_gpu_alloc(odd == 1 ? DMA_GPU_DEVICE_FINE : DMA_GPU_DEVICE_PLAIN,
                          odd == 2 ? (r->rank + 1) % MOST_RANKS : r->rank, bytes);
}

static void make(rank_t *r, const call_t *c, buffer_t *b, bool sends)
{
    int piece = 1 + (int)threads_random(r, (uint32_t)c->unit), elements = 0;

    while (c->unit % piece) {
        piece--;
    }
    *b = (buffer_t){.n = sends && dma_coll_gathers(c->coll) ? 1 : r->n};
    b->type = (vector_type_t){.piece = (size_t)piece, .stride = (size_t)piece + threads_random(r, 20)};
    for (int k = 0; k < b->n; k++) {
        b->counts[k] = (sends ? bytes_between(c, r->rank, k) : bytes_between(c, k, r->rank)) / piece;
        b->displs[k] = elements;
        elements += b->counts[k] + (c->uneven ? (int)threads_random(r, 3) : 0);
    }
    b->bytes = (size_t)elements * b->type.stride + 2 * MARGIN;
    b->memory = device_memory(r, c, b->bytes);
    memset(b->memory, 0xee, b->bytes);
}

static dma_side_t side(const call_t *c, const buffer_t *b, bool many)
{
    dma_side_t s = {.addr = b->memory + MARGIN,
                    .dense = b->type.piece == b->type.stride,
                    .width = sizeof(int),
                    .size = b->type.piece,
                    .extent = (ptrdiff_t)b->type.stride,
                    .ub = (ptrdiff_t)b->type.piece,
                    .type = (void *)(uintptr_t)&b->type,
                    .count = (size_t)b->counts[0]};

    if (c->uneven && many) {
        s.counts = b->counts;
        s.displs = b->displs;
    }
    return s;
}

static void one(rank_t *r, uint64_t number)
{
    uint32_t x = (uint32_t)(number * 2654435761u);
    call_t c = {
        .coll = (dma_coll_t)(x >> 8) % DMA_COLL_COUNT, .tag = number, .unit = scale * 12 * (1 + (int)(x >> 12) % 9)};
    bool gathers = dma_coll_gathers(c.coll);
    buffer_t send, recv;
    dma_call_t call;

    c.in_place = gathers && (x >> 20) % 3 == 0;
    c.uneven = dma_coll_sizes(c.coll) != DMA_SIZES_EQUAL;
    c.multiple = 1 + (int)(x >> 24) % 5;
    make(r, &c, &recv, false);
    call = (dma_call_t){.coll = c.coll, .in_place = c.in_place, .recv = side(&c, &recv, true)};
    if (c.in_place) {
        put(&recv, recv.memory, &c, r->rank, r->rank, r->rank);
    } else {
        make(r, &c, &send, true);
        for (int b = 0; b < send.n; b++) {
            put(&send, send.memory, &c, b, r->rank, b);
        }
        call.send = side(&c, &send, !gathers);
    }
    recv.want = malloc(recv.bytes);
    memcpy(recv.want, recv.memory, recv.bytes);
    must(r, dma_comm_run(r->comms[0], &call) == DMA_OK, "call %lu", number);
    for (int b = 0; b < r->n; b++) {
        put(&recv, recv.want, &c, b, b, r->rank);
    }
    must(r, !memcmp(recv.want, recv.memory, recv.bytes), "call %lu: %d%s", number, c.coll,
         c.in_place ? " in place" : "");
    free(recv.want);
    fake_gpu_free(recv.memory);
    if (!c.in_place) {
        fake_gpu_free(send.memory);
    }
}

static void body(rank_t *r)
{
    must(r, dma_comm_prepare(r->comms[0]) == DMA_OK, "set-up");
    for (uint64_t i = 0; i < CALLS; i++) {
        one(r, i + unit_seed());
    }
}

static void run(int n, unsigned mask)
{
    job_t job = threads_job(n, body);

    runs = rects = 0;
    shaped = mask;
    job.runtime = fake_gpu_start(&(fake_gpu_options_t){.devices = MOST_RANKS, .seed = unit_seed(), .late_us = 20});
    job.engines = engines;
    job.ending = fake_gpu_ending;
    job.params.scratch_bytes = scratch_bytes ? scratch_bytes : job.params.scratch_bytes;
    threads_run(&job);
}

START_TEST(by_engines)
{
    run(_i, ~0u);
    ck_assert_uint_eq(runs, (unsigned)_i * CALLS);
    ck_assert_uint_gt(rects, CALLS);
    ck_assert_uint_eq(fake_gpu_calls("copy2d_async"), 0);
    fake_gpu_stop();
}
END_TEST

START_TEST(packed_inside_the_device)
{
    run(_i, 0);
    ck_assert_uint_eq(runs, (unsigned)_i * CALLS);
    ck_assert_uint_eq(rects, 0);
    ck_assert_uint_gt(fake_gpu_calls("copy2d_async"), CALLS);
    fake_gpu_stop();
}
END_TEST

/* Scratch memory and shapes in one call. */
START_TEST(by_engines_into_scratch)
{
    odd_memory = true;
    run(_i, ~0u);
    ck_assert_uint_eq(runs, (unsigned)_i * CALLS);
    ck_assert_uint_gt(rects, 0);
    ck_assert_uint_eq(fake_gpu_calls("copy"), 0);
    fake_gpu_stop();
    odd_memory = false;
}
END_TEST

/* Where the scratch memory of one rank does not hold a call, all ranks cut their shapes at the ends of pieces. */
START_TEST(by_engines_in_pieces)
{
    odd_memory = true;
    scale = 100;
    scratch_bytes = 70000;
    run(_i, ~0u);
    ck_assert_uint_gt(runs, (unsigned)_i * CALLS);
    ck_assert_uint_gt(counts_sum(DMA_COUNT_calls_pieces), 0);
    ck_assert_int_eq(reports_count("failed"), 0);
    fake_gpu_stop();
    odd_memory = false;
    scale = 1;
    scratch_bytes = 0;
}
END_TEST

/* Where one rank receives into a shape and another's engine could not put it there, all go through the host. */
START_TEST(by_some_engines)
{
    run(_i, 1);
    ck_assert_uint_gt(reasons_count(DMA_REASON_staged_type), 0);
    ck_assert_uint_gt(runs, 0);
    ck_assert_uint_lt(runs, (unsigned)_i * CALLS);
    ck_assert_uint_eq(runs % (unsigned)_i, 0);
    fake_gpu_stop();
}
END_TEST

/* ---- what the runtime refuses ---- */

/* An all-gather of three elements from each rank, `stride` apart on one side or the other. */
typedef struct sparse {
    size_t stride;
    bool sends, in_place;
} sparse_t;

enum { PIECE = 60, ELEMENTS = 3 };

static dma_side_t sparse_side(const vector_type_t *type, uint8_t *memory)
{
    return (dma_side_t){.addr = memory,
                        .dense = type->piece == type->stride,
                        .width = sizeof(int),
                        .size = type->piece,
                        .extent = (ptrdiff_t)type->stride,
                        .ub = (ptrdiff_t)type->piece,
                        .type = (void *)(uintptr_t)type,
                        .count = ELEMENTS};
}

static uint8_t *sparse_byte(const vector_type_t *type, uint8_t *memory, int block, int i)
{
    return memory + (size_t)(block * ELEMENTS + i / PIECE) * type->stride + i % PIECE;
}

static void sparse_body(rank_t *r)
{
    const sparse_t *p = r->job->arg;
    vector_type_t send_type = {.piece = PIECE, .stride = p->sends ? p->stride : PIECE};
    vector_type_t recv_type = {.piece = PIECE, .stride = p->sends ? PIECE : p->stride};
    uint8_t *send = fake_gpu_alloc(DMA_GPU_DEVICE_PLAIN, r->rank, ELEMENTS * send_type.stride);
    uint8_t *recv = fake_gpu_alloc(DMA_GPU_DEVICE_PLAIN, r->rank, (size_t)(r->n * ELEMENTS) * recv_type.stride);
    dma_call_t call = {.coll = DMA_ALLGATHER,
                       .in_place = p->in_place,
                       .send = sparse_side(&send_type, send),
                       .recv = sparse_side(&recv_type, recv)};

    must(r, dma_comm_prepare(r->comms[0]) == DMA_OK, "set-up");
    for (uint64_t k = 1; k <= 4; k++) {
        for (int i = 0; i < ELEMENTS * PIECE; i++) {
            *(p->in_place ? sparse_byte(&recv_type, recv, r->rank, i) : sparse_byte(&send_type, send, 0, i)) =
                data_byte(k, r->rank, (uint64_t)i);
        }
        must(r, dma_comm_run(r->comms[0], &call) == DMA_OK, "call %lu: %s", k, dma_comm_reason(r->comms[0]));
        for (int i = 0; i < r->n * ELEMENTS * PIECE; i++) {
            int from = i / (ELEMENTS * PIECE), at = i % (ELEMENTS * PIECE);

            must(r, *sparse_byte(&recv_type, recv, from, at) == data_byte(k, from, (uint64_t)at),
                 "call %lu: byte %d from rank %d", k, at, from);
        }
    }
    fake_gpu_free(send);
    fake_gpu_free(recv);
}

static void run_sparse(sparse_t p, unsigned failing)
{
    job_t job = threads_job(3, sparse_body);

    runs = shaped = 0;
    job.arg = &p;
    job.runtime = fake_gpu_start(&(fake_gpu_options_t){.devices = MOST_RANKS, .seed = unit_seed()});
    job.engines = engines;
    job.ending = fake_gpu_ending;
    if (failing) {
        fake_gpu_fail("copy2d_async", failing - 1, DMA_ERR_ENGINE);
    }
    threads_run(&job);
    ck_assert_uint_eq(runs, 3 * (4 - (failing > 0)));
    fake_gpu_stop();
}

/* Blocks that one rank cannot pack go through the host, from the buffer itself: no rank receives memory that was never packed.
 * Loop variable: which rank; and whether packing fails for what it sends, or for the own block in place. */
START_TEST(packing_fails)
{
    run_sparse((sparse_t){.stride = 100, .sends = _i % 2 == 0, .in_place = _i % 2}, 1 + (unsigned)_i / 2);
}
END_TEST

/* Rows further apart than runtimes copy. */
START_TEST(rows_far_apart)
{
    run_sparse((sparse_t){.stride = (size_t)DMA_GPU_MAX_PITCH + 1 + (size_t)_i / 3,
                          .sends = _i % 3 == 0,
                          .in_place = _i % 3 == 2},
               0);
}
END_TEST

/* The same of the copies that a relay makes inside a device. */
START_TEST(rows_far_apart_in_a_relay)
{
    const dma_gpu_runtime_t *rt = fake_gpu_start(&(fake_gpu_options_t){.devices = 1, .seed = unit_seed()});
    const int64_t far = (int64_t)DMA_GPU_MAX_PITCH + 1;
    char *sparse = fake_gpu_alloc(DMA_GPU_DEVICE_PLAIN, 0, 2 * (uint64_t)far + 8);
    char *dense = fake_gpu_alloc(DMA_GPU_DEVICE_PLAIN, 0, 24);
    dma_proc_t proc = {.params.timeout = 5};
    dma_relay_t relay;
    dma_status_t status;

    memcpy(dense, "row one row two the last", 24);
    dma_budget_init(&proc.budget, &threads_counters, UINT64_MAX, UINT64_MAX);
    pthread_mutex_init(&proc.device_lock, NULL);
    ck_assert_int_eq(dma_relay_acquire(&relay, &proc, rt, 0, 4096), DMA_OK);
    ck_assert_int_eq(dma_relay_copy(&relay, sparse, far, dense, 8, 8, 3), DMA_OK);
    while ((status = dma_relay_test(&relay, DMA_RELAY_LOCAL, 0)) == DMA_AGAIN) {
    }
    ck_assert_int_eq(status, DMA_OK);
    ck_assert_int_eq(memcmp(sparse + 2 * far, "the last", 8), 0);
    dma_relay_release(&relay, NULL);
    dma_leases_destroy(&proc);
    pthread_mutex_destroy(&proc.device_lock);
    fake_gpu_free(sparse);
    fake_gpu_free(dense);
    fake_gpu_stop();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("device_shape");

    unit_loop(s, by_engines, 2, MOST_RANKS + 1, 30);
    unit_loop(s, packed_inside_the_device, 2, MOST_RANKS + 1, 30);
    unit_loop(s, by_engines_into_scratch, 2, MOST_RANKS + 1, 30);
    unit_loop(s, by_engines_in_pieces, 2, MOST_RANKS + 1, 60);
    unit_loop(s, by_some_engines, 2, MOST_RANKS + 1, 30);
    unit_loop(s, packing_fails, 0, 6, 30);
    unit_loop(s, rows_far_apart, 0, 6, 30);
    unit_test(s, rows_far_apart_in_a_relay, 10);
    return unit_main(s);
}
