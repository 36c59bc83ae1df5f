/*
 * What the short path costs, in counts: cache lines written, indirect calls, allocations. Also: what must not be
 * visible too early. Two ranks are in one thread. Rank 0 posts first, so the blocking call of rank 1 finds everything
 * there and runs without a wait.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/comm.h"
#include "libthreads.h"
#include "libunit.h"

#define LINE 64

typedef struct pair {
    group_t *group;
    dma_proc_t *proc[2];
    dma_comm_t *comm[2];
} pair_t;

/* ---- counters ---- */

static unsigned indirect_calls, allocations, looks, runtime_searches;
static bool counting;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);

void *__wrap_malloc(size_t bytes)
{
    allocations += counting;
    return __real_malloc(bytes);
}

void *__wrap_calloc(size_t n, size_t bytes)
{
    allocations += counting;
    return __real_calloc(n, bytes);
}

const dma_gpu_runtime_t *__real_dma_gpu_runtime_loaded(void);
const dma_gpu_runtime_t *__wrap_dma_gpu_runtime_loaded(void);

const dma_gpu_runtime_t *__wrap_dma_gpu_runtime_loaded(void)
{
    runtime_searches += counting;
    return __real_dma_gpu_runtime_loaded();
}

static dma_status_t counted_start(dma_run_t *run)
{
    indirect_calls++;
    return dma_engine_host.start(run);
}

static dma_status_t counted_advance(dma_run_t *run)
{
    uint32_t before = run->spin_budget;
    dma_status_t status = dma_engine_host.advance(run);

    indirect_calls++;
    looks += before - run->spin_budget;
    return status;
}

static dma_status_t counted_isend(void *comm, const void *buf, size_t bytes, int peer, int tag, void **req)
{
    indirect_calls++;
    return threads_host.isend(comm, buf, bytes, peer, tag, req);
}

static dma_status_t counted_irecv(void *comm, void *buf, size_t bytes, int peer, int tag, void **req)
{
    indirect_calls++;
    return threads_host.irecv(comm, buf, bytes, peer, tag, req);
}

static dma_status_t counted_test(void *comm, void **req)
{
    indirect_calls++;
    return threads_host.test(comm, req);
}

static void counted_progress(void)
{
    indirect_calls++;
}

static void counted_report(dma_report_t level, const char *topic, const char *text)
{
    indirect_calls++;
    threads_host.report(level, topic, text);
}

static unsigned packs, unpacks;

static dma_status_t strided_pack(const void *buf, size_t count, void *type, void *packed, size_t bytes)
{
    packs++;
    return threads_host.pack(buf, count, type, packed, bytes);
}

static dma_status_t strided_unpack(void *buf, size_t count, void *type, const void *packed, size_t bytes)
{
    unpacks++;
    return threads_host.unpack(buf, count, type, packed, bytes);
}

static const dma_host_t counted_host = {
    .isend = counted_isend,
    .irecv = counted_irecv,
    .test = counted_test,
    .progress = counted_progress,
    .pack = strided_pack,
    .unpack = strided_unpack,
    .report = counted_report,
};

static dma_engine_t counted_engine;

/* ---- two ranks in one thread ---- */

static void settle(pair_t *p, dma_task_t *task0, dma_task_t *task1)
{
    while (dma_task_test(task0) == DMA_AGAIN || dma_task_test(task1) == DMA_AGAIN) {
        dma_proc_progress(p->proc[0]);
        dma_proc_progress(p->proc[1]);
    }
    ck_assert_int_eq(dma_task_test(task0), DMA_OK);
    ck_assert_int_eq(dma_task_test(task1), DMA_OK);
    task_free(task0);
    task_free(task1);
}

static pair_t pair_begin(void)
{
    static char a[2][1], b[2][2];
    pair_t p = {.group = group_create(2, unit_seed(), 0)};
    dma_task_t *task[2];

    counted_engine = dma_engine_host;
    counted_engine.start = counted_start;
    counted_engine.advance = counted_advance;
    for (int r = 0; r < 2; r++) {
        dma_proc_config_t proc = {.host = &counted_host, .routes = dma_routes};
        dma_comm_config_t comm = {.handle = group_handle(p.group, r), .rank = r, .nranks = 2, .text = "pair"};

        dma_params_default(&proc.params);
        proc.params.measure = 0; /* every run makes the same plans, and small blocks, because plans are compared */
        proc.params.chunk_depth = 4;
        ck_assert_int_eq(dma_proc_create(&proc, &p.proc[r]), DMA_OK);
        ck_assert_int_eq(dma_comm_create(p.proc[r], &comm, &p.comm[r]), DMA_OK);
    }
    for (int r = 0; r < 2; r++) {
        dma_side_t send = data_buffer(a[r], 1), recv = data_buffer(b[r], 1);

        ck_assert_int_eq(data_iallgather(p.comm[r], &send, &recv, &task[r]), DMA_OK);
    }
    settle(&p, task[0], task[1]);
    p.comm[1]->engine = &counted_engine;
    return p;
}

static void pair_end(pair_t *p)
{
    /* both ranks use one mapping of each arena: no arena may end while a communicator is left */
    for (int r = 0; r < 2; r++) {
        dma_comm_destroy(p->comm[r]);
    }
    for (int r = 0; r < 2; r++) {
        dma_proc_destroy(p->proc[r]);
    }
    group_destroy(p->group);
}

typedef struct cost {
    unsigned lines, foreign_lines, calls, allocations;
} cost_t;

static unsigned lines_changed(const char *before, const char *now, size_t bytes)
{
    unsigned n = 0;

    for (size_t at = 0; at < bytes; at += LINE) {
        n += memcmp(before + at, now + at, LINE) != 0;
    }
    return n;
}

static unsigned dones;

static void count_done(void *arg, dma_status_t status)
{
    (void)arg;
    dones += status == DMA_OK;
}

/* A non-blocking call that ends while it is posted. */
static dma_status_t post_and_end(dma_comm_t *comm, const dma_side_t *send, const dma_side_t *recv)
{
    static _Alignas(DMA_TASK_ALIGN) char memory[DMA_TASK_BYTES];
    dma_call_t call = {.coll = DMA_ALLGATHER, .send = *send, .recv = *recv};
    dma_status_t outcome = DMA_AGAIN, status = dma_comm_post_in(comm, &call, count_done, NULL, memory, &outcome);

    return status == DMA_OK ? outcome : status;
}

/* One call of rank 1 on blocks of `bytes`. Every byte differs from the last call. */
static cost_t call_with(dma_status_t (*run)(dma_comm_t *comm, const dma_side_t *send, const dma_side_t *recv),
                        pair_t *p, size_t bytes)
{
    static unsigned char a[2][4096], b[2][2 * 4096], salt;
    dma_window_t *w = &p->comm[1]->window;
    size_t block = w->layout.bytes;
    char *own = malloc(block), *other = malloc(block);
    dma_side_t send[2], recv[2];
    dma_status_t status;
    dma_task_t *task;
    cost_t cost;

    salt++;
    for (int r = 0; r < 2; r++) {
        memset(a[r], 2 * salt + r, bytes);
        send[r] = data_buffer(a[r], bytes);
        recv[r] = data_buffer(b[r], bytes);
    }
    ck_assert_int_eq(data_iallgather(p->comm[0], &send[0], &recv[0], &task), DMA_OK);
    memcpy(own, w->own, block);
    memcpy(other, w->peers[0].block, block);
    indirect_calls = allocations = 0;
    counting = true;
    status = run(p->comm[1], &send[1], &recv[1]);
    counting = false;
    ck_assert_int_eq(status, DMA_OK);
    cost = (cost_t){
        .lines = lines_changed(own, (char *)w->own, block),
        .foreign_lines = lines_changed(other, (char *)w->peers[0].block, block),
        .calls = indirect_calls,
        .allocations = allocations,
    };
    while (dma_task_test(task) == DMA_AGAIN) {
        dma_proc_progress(p->proc[0]);
    }
    ck_assert_int_eq(dma_task_test(task), DMA_OK);
    task_free(task);
    for (int r = 0; r < 2; r++) {
        ck_assert_mem_eq(b[r], a[0], bytes);
        ck_assert_mem_eq(b[r] + bytes, a[1], bytes);
    }
    free(own);
    free(other);
    return cost;
}

static cost_t call(pair_t *p, size_t bytes)
{
    return call_with(data_allgather, p, bytes);
}

/* The function of the component is one more indirect call: three in all. */
START_TEST(small_call_costs)
{
    static const struct {
        size_t bytes;
        unsigned lines;
    } rows[] = {{1, 1}, {32, 1}, {33, 2}, {64, 2}, {96, 2}};
    pair_t p = pair_begin();

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        call(&p, rows[i].bytes); /* builds the plan */
        for (int k = 0; k < 40; k++) {
            cost_t cost = call(&p, rows[i].bytes);

            ck_assert_uint_le(cost.lines, rows[i].lines);
            ck_assert_uint_eq(cost.foreign_lines, 0);
            ck_assert_uint_le(cost.calls, 2);
            ck_assert_uint_eq(cost.allocations, 0);
        }
    }
    pair_end(&p);
}
END_TEST

/* If the peers have already entered, a request costs nothing more: it is not registered for progress. */
START_TEST(post_that_ends_costs)
{
    pair_t p = pair_begin();

    dones = 0;
    call_with(post_and_end, &p, 64);
    for (int k = 0; k < 40; k++) {
        cost_t cost = call_with(post_and_end, &p, 64);

        ck_assert_uint_le(cost.lines, 2);
        ck_assert_uint_eq(cost.foreign_lines, 0);
        ck_assert_uint_le(cost.calls, 2);
        ck_assert_uint_eq(cost.allocations, 0);
        ck_assert_uint_eq(dones, 0);
        ck_assert_uint_eq(dma_proc_active(p.proc[1]), 0);
    }
    pair_end(&p);
}
END_TEST

/* If the peers do not enter, the call polls them for a moment, and stops polling. */
START_TEST(post_looks_for_its_peers)
{
    static char a[2][1], b[2][2];
    pair_t p = pair_begin();
    unsigned tired = 0;

    dones = 0;
    for (unsigned k = 0; k < 40; k++) {
        dma_side_t send = data_buffer(a[1], 1), recv = data_buffer(b[1], 1);
        dma_side_t other_send = data_buffer(a[0], 1), other_recv = data_buffer(b[0], 1);
        dma_task_t *task;

        a[0][0] = (char)k;
        looks = 0;
        ck_assert_int_eq(post_and_end(p.comm[1], &send, &recv), DMA_AGAIN);
        ck_assert(looks == 0 ? k >= 8 : looks >= 100 && looks <= 1000);
        tired += looks == 0;
        ck_assert_uint_eq(dma_proc_active(p.proc[1]), 1);
        ck_assert_int_eq(data_iallgather(p.comm[0], &other_send, &other_recv, &task), DMA_OK);
        looks = 0;
        while (dones == k || dma_task_test(task) == DMA_AGAIN) {
            dma_proc_progress(p.proc[1]);
            dma_proc_progress(p.proc[0]);
        }
        ck_assert_uint_eq(looks, 0); /* progress never waits */
        ck_assert_uint_eq(dones, k + 1);
        task_free(task);
        ck_assert_int_eq(b[1][0], (char)k);
    }
    ck_assert_uint_ge(tired, 24);
    pair_end(&p);
}
END_TEST

/* Derived datatypes are staged in memory that exists already, except in the first call and in a call that is larger
 * than all before. */
START_TEST(shaped_call_allocates_once)
{
    enum { PIECE = 3, STRIDE = 5, MOST = 3000 };
    static unsigned char a[2][2 * MOST * STRIDE], b[2][2 * MOST * STRIDE];
    static _Alignas(DMA_TASK_ALIGN) char memory[2][DMA_TASK_BYTES];
    static const size_t counts[] = {1000, 10, 1000, 1, 2000, 1999, MOST, MOST};
    static const bool more[] = {true, false, false, false, true, false, true, false};
    static vector_type_t type = {.piece = PIECE, .stride = STRIDE};
    enum { KINDS = sizeof(counts) / sizeof(counts[0]) };
    pair_t p = pair_begin();
    void *arrays[2] = {malloc(dma_arrays_total(p.comm[0])), malloc(dma_arrays_total(p.comm[1]))};

    for (size_t n = 0; n < 2 * KINDS; n++) {
        size_t i = n % KINDS;
        bool shaped = n >= KINDS; /* first, dense calls make all plans */

        for (int r = 0; r < 2; r++) {
            dma_side_t side = {
                .width = sizeof(int), .size = PIECE, .extent = STRIDE, .type = &type, .count = counts[i]};
            dma_call_t call = {.coll = DMA_ALLTOALL, .send = side, .recv = side};
            dma_status_t status, outcome;

            call.send.dense = call.recv.dense = !shaped;
            memset(a[r], 16 * (int)i + r + 1, sizeof(a[r]));
            memset(b[r], 0, sizeof(b[r]));
            call.send.addr = a[r];
            call.recv.addr = b[r];
            allocations = 0;
            counting = true;
            status =
                dma_comm_post_task(p.comm[r], &call, arrays[r], count_done, NULL, (dma_task_t *)memory[r], &outcome);
            counting = false;
            ck_assert_int_eq(status, DMA_OK);
            ck_assert_msg(!shaped || (allocations > 0) == more[i], "size %zu, rank %d: %u", i, r, allocations);
        }
        for (int k = 0; k < 1000; k++) {
            dma_proc_progress(p.proc[k % 2]);
        }
        for (int r = 0; r < 2; r++) {
            for (size_t k = 0; shaped && k < 2 * counts[i] * STRIDE; k++) {
                size_t from = k / (counts[i] * STRIDE);

                ck_assert_uint_eq(b[r][k], k % STRIDE < PIECE ? 16 * i + from + 1 : 0);
            }
        }
    }
    pair_end(&p);
    free(arrays[0]);
    free(arrays[1]);
}
END_TEST

/* Blocks of equal counts are packed and unpacked together if they are small. */
START_TEST(equal_blocks_pack_as_one)
{
    static const struct {
        dma_coll_t coll;
        int count;
        unsigned packs, unpacks; /* of both ranks */
    } cases[] = {{DMA_ALLTOALL, 7, 2, 2},       {DMA_ALLTOALL, 174000, 2, 2},  {DMA_ALLTOALL, 175000, 4, 4},
                 {DMA_ALLGATHER, 7, 2, 2},      {DMA_ALLGATHERV, 7, 2, 4},     {DMA_ALLTOALLV, 7, 4, 4},
                 {DMA_ALLGATHER, 174000, 2, 2}, {DMA_ALLGATHER, 175000, 2, 4}, {DMA_ALLTOALL, 0, 0, 0}};
    enum { PIECE = 3, STRIDE = 5 };
    static vector_type_t type = {.piece = PIECE, .stride = STRIDE};
    pair_t p = pair_begin();

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t block = (size_t)cases[i].count * STRIDE;
        bool gathers = dma_coll_gathers(cases[i].coll);
        unsigned char *a[2], *b[2];
        dma_task_t *task[2];
        unsigned wrong = 0;

        packs = unpacks = 0;
        for (int r = 0; r < 2; r++) {
            int counts[] = {cases[i].count, cases[i].count}, displs[] = {0, cases[i].count};
            dma_side_t side = {.width = sizeof(int), .size = PIECE, .extent = STRIDE, .type = &type};
            dma_call_t call = {.coll = cases[i].coll, .send = side, .recv = side};

            call.send.count = call.recv.count = (size_t)cases[i].count;
            if (cases[i].coll == DMA_ALLGATHERV || cases[i].coll == DMA_ALLTOALLV) {
                call.recv.counts = counts;
                call.recv.displs = displs;
                call.send.counts = gathers ? NULL : counts;
                call.send.displs = gathers ? NULL : displs;
            }
            call.send.addr = a[r] = malloc(2 * block + 1);
            call.recv.addr = b[r] = calloc(1, 2 * block + 1);
            for (size_t k = 0; k < 2 * block; k++) {
                a[r][k] = (unsigned char)(1 + (k + (size_t)r * 31) % 251);
            }
            ck_assert_int_eq(task_post(p.comm[r], &call, NULL, NULL, &task[r]), DMA_OK);
        }
        for (int k = 0; k < 10000 && dma_task_test(task[0]) + dma_task_test(task[1]) != 2 * DMA_OK; k++) {
            dma_proc_progress(p.proc[k % 2]);
        }
        for (int r = 0; r < 2; r++) {
            ck_assert_int_eq(dma_task_test(task[r]), DMA_OK);
            task_free(task[r]);
            for (size_t k = 0; k < 2 * block; k++) {
                size_t from = k / block, at = k % block + (gathers ? 0 : (size_t)r * block);

                wrong += b[r][k] != (k % STRIDE < PIECE ? a[from][at] : 0);
            }
        }
        ck_assert_uint_eq(wrong, 0);
        ck_assert_msg(packs == cases[i].packs && unpacks == cases[i].unpacks, "case %zu: %u and %u", i, packs, unpacks);
        for (int r = 0; r < 2; r++) {
            free(a[r]);
            free(b[r]);
        }
    }
    pair_end(&p);
}
END_TEST

/* A block that uses a slot writes the block and one line of the descriptor. */
START_TEST(slot_call_costs)
{
    pair_t p = pair_begin();

    call(&p, 1024);
    for (int k = 0; k < 40; k++) {
        cost_t cost = call(&p, 1024);

        ck_assert_uint_le(cost.lines, 1 + 1024 / LINE);
        ck_assert_uint_le(cost.calls, 2);
        ck_assert_uint_eq(cost.allocations, 0);
    }
    pair_end(&p);
}
END_TEST

/* A call whose send buffer is read by the peers is not complete before they have read it, not even if the previous
 * call was. */
START_TEST(sender_waits_for_its_readers)
{
    static char a[2][20000], b[2][2 * 20000];
    pair_t p = pair_begin();

    p.comm[0]->forced = p.comm[1]->forced = dma_variant_find("host_reach");
    for (int k = 0; k < 3; k++) {
        dma_task_t *task[2];

        for (int r = 1; r >= 0; r--) {
            dma_side_t send = data_buffer(a[r], sizeof(a[r])), recv = data_buffer(b[r], sizeof(a[r]));

            memset(a[r], 2 * k + r, sizeof(a[r]));
            ck_assert_int_eq(data_iallgather(p.comm[r], &send, &recv, &task[r]), DMA_OK);
        }
        for (int i = 0; i < 100; i++) {
            dma_proc_progress(p.proc[0]);
        }
        ck_assert_int_eq(dma_task_test(task[0]), DMA_AGAIN); /* rank 1 has had no turn since rank 0 entered */
        settle(&p, task[0], task[1]);
        for (int r = 0; r < 2; r++) {
            ck_assert_mem_eq(b[r], a[0], sizeof(a[0]));
            ck_assert_mem_eq(b[r] + sizeof(a[0]), a[1], sizeof(a[1]));
        }
    }
    pair_end(&p);
}
END_TEST

/* There is no task and nothing to poll, so the component registers no callback. */
START_TEST(idle_process_is_not_polled)
{
    pair_t p = pair_begin();

    call(&p, 64);
    ck_assert_uint_eq(dma_proc_active(p.proc[0]), 0);
    ck_assert_uint_eq(dma_proc_active(p.proc[1]), 0);
    pair_end(&p);
}
END_TEST

/* Counts how often a call of rank 1 on these buffers looks for a GPU runtime. */
static unsigned searches_of(pair_t *p, char *sent, char *received)
{
    static char a, b[2];
    dma_side_t send[2] = {data_buffer(&a, 1), data_buffer(sent, 1)};
    dma_side_t recv[2] = {data_buffer(b, 1), data_buffer(received, 1)};
    dma_status_t status;
    dma_task_t *task;

    ck_assert_int_eq(data_iallgather(p->comm[0], &send[0], &recv[0], &task), DMA_OK);
    runtime_searches = 0;
    counting = true;
    status = data_allgather(p->comm[1], &send[1], &recv[1]);
    counting = false;
    ck_assert_int_eq(status, DMA_OK);
    while (dma_task_test(task) == DMA_AGAIN) {
        dma_proc_progress(p->proc[0]);
    }
    task_free(task);
    return runtime_searches;
}

START_TEST(heap_and_stack_need_no_runtime)
{
    static char fixed[2];
    pair_t p = pair_begin();
    char *heap = sbrk(4096), local[2];

    ck_assert(heap != (void *)-1);
    for (int k = 0; k < 4; k++) {
        ck_assert_uint_eq(searches_of(&p, heap, heap + 8), 0);
        ck_assert_uint_eq(searches_of(&p, local, heap), 0);
        ck_assert_uint_eq(searches_of(&p, heap, local), 0);
        ck_assert_uint_eq(searches_of(&p, fixed, heap), 1);
        ck_assert_uint_eq(searches_of(&p, heap, fixed), 1);
    }
    pair_end(&p);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("path");

    unit_test(suite, small_call_costs, 10);
    unit_test(suite, slot_call_costs, 10);
    unit_test(suite, post_that_ends_costs, 10);
    unit_test(suite, shaped_call_allocates_once, 10);
    unit_test(suite, equal_blocks_pack_as_one, 10);
    unit_test(suite, post_looks_for_its_peers, 10);
    unit_test(suite, sender_waits_for_its_readers, 10);
    unit_test(suite, idle_process_is_not_polled, 10);
    unit_test(suite, heap_and_stack_need_no_runtime, 10);
    return unit_main(suite);
}
