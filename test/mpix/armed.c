/*
 * armed MEMORY LEVEL FIRST SEEDS: partitions of several requests become ready in random orders, while some ranks are late. With
 * MEMORY hip, engines of the emulated node wait for the words themselves, and the statistics of the node prove it.
 *
 *   MEMORY  hip: device memory of an emulated node; host
 *   LEVEL   multiple, serialized: what MPI_Init_thread is asked for
 *
 * Each seed is a round of all requests. After SEEDS_A_SET rounds the requests are made anew. The data of a partition are
 * written just before a thread or the library stores its word. The test checks that the bytes of a partition are there when a
 * word says that it has arrived, that the words are 0 before, and that all bytes are right at the end. At the end each request
 * is freed in the middle of a round.
 *
 * Doorbells. Arming a start rings one doorbell for each queue. No other doorbell is allowed: in N rounds, a request is armed N
 * + 1 times. So no doorbell is rung between the store of a ready word and the arrival of the partition. The component's counter
 * of doorbells, minus its counter of nudges (doorbells for queues that do not move), must have the expected value. The
 * statistics of the node must not show more doorbells than the component has counted. When the requests are freed, all armed
 * programs must have started or been revoked. The node also refuses to destroy a queue that waits.
 */
#include <mpi.h>
#include <mpix_dma.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../device/hip.h"

enum {
    REQUESTS = 3,
    SEEDS_A_SET = 10,
    MOST_PARTS = 16,
    MOST_RANKS = 8,
    MOST_BYTES = 48 * 341,
    STALE = 0xEE,
    UNMADE = 0xDD
};
enum { ARMED, STARTED, CANCELLED, DOORBELLS, NUDGES, ORDER, LATE, COUNTERS };

typedef struct work {
    int number, gathers, in_place, sparts, rparts, bytes, rounds, made, seen_count;
    size_t send_bytes, recv_bytes;
    unsigned char *send, *recv; /* in memory of type MEMORY */
    MPI_Request request;
    MPIX_Prequest words;
    long queues; /* doorbells of one arming */
    int order[MOST_PARTS];
    unsigned char seen[MOST_RANKS * MOST_PARTS];
} work_t;

static const char *const counter_names[COUNTERS] = {
    "coll_dma_armed",  "coll_dma_armed_started",      "coll_dma_armed_cancelled",  "coll_dma_doorbells",
    "coll_dma_nudges", "coll_dma_reason_parts_order", "coll_dma_reason_parts_late"};
static work_t works[REQUESTS];
static MPI_T_pvar_session session;
static MPI_T_pvar_handle counters[COUNTERS];
static int rank, ranks, on_node, seed, works_count;
static unsigned long own, same;

static unsigned draw(unsigned long *state, unsigned below)
{
    *state = *state * 6364136223846793005ul + 1442695040888963407ul;
    return (unsigned)(*state >> 33) % below;
}

static void must(int right, const char *what, long a, long b)
{
    if (!right) {
        fprintf(stderr, "rank %d, seed %d: %s: %ld, %ld\n", rank, seed, what, a, b);
        MPI_Abort(MPI_COMM_WORLD, 4);
    }
}

/* ---- counters ---- */

static void open_counters(int level)
{
    int provided, index, count;

    MPI_T_init_thread(level, &provided); /* up to 5.0 MPI_Query_thread then says so, too */
    MPI_T_pvar_session_create(&session);
    for (int i = 0; i < COUNTERS; i++) {
        must(MPI_T_pvar_get_index(counter_names[i], MPI_T_PVAR_CLASS_COUNTER, &index) == MPI_SUCCESS &&
                 MPI_T_pvar_handle_alloc(session, index, NULL, &counters[i], &count) == MPI_SUCCESS,
             counter_names[i], i, 0);
    }
}

static long count_of(int which)
{
    unsigned long long value = 0;

    MPI_T_pvar_read(session, counters[which], &value);
    return (long)value;
}

static long node_doorbells(void)
{
    hip_stats_t stats;

    must(hip_stats(&stats), "statistics of the node", 0, 0);
    return stats.doorbells;
}

/* ---- data ---- */

static void move(void *to, const void *from, size_t bytes)
{
    if (on_node) {
        hip_copy(to, from, bytes);
    } else {
        memcpy(to, from, bytes);
    }
}

static void *take(size_t bytes)
{
    return on_node ? hip_take(bytes) : malloc(bytes);
}

static void give(void *memory)
{
    if (on_node) {
        hip_must("hipFree", hip.hipFree(memory));
    } else {
        free(memory);
    }
}

static unsigned char byte_of(const work_t *w, int from, int to, int at)
{
    return (unsigned char)(1 + w->number * 91 + w->rounds * 53 + from * 29 + (w->gathers ? 0 : to) * 17 + at * 7 +
                           seed);
}

static void set_all(unsigned char *memory, int value, size_t bytes)
{
    unsigned char *all = memset(malloc(bytes), value, bytes);

    move(memory, all, bytes);
    free(all);
}

/* Writes the data of a partition. */
static void make(work_t *w, int part)
{
    int bytes = w->bytes / w->sparts, blocks = w->gathers ? 1 : ranks;
    unsigned char *data = malloc((size_t)bytes);

    for (int to = 0; to < blocks; to++) {
        size_t at = (size_t)(w->in_place ? rank : to) * (size_t)w->bytes + (size_t)(part * bytes);

        for (int i = 0; i < bytes; i++) {
            data[i] = byte_of(w, rank, to, part * bytes + i);
        }
        move((w->in_place ? w->recv : w->send) + at, data, (size_t)bytes);
    }
    free(data);
}

static void check(const work_t *w, int from, int first, int bytes)
{
    unsigned char *data = malloc((size_t)bytes);

    move(data, w->recv + (size_t)from * (size_t)w->bytes + first, (size_t)bytes);
    for (int i = 0; i < bytes; i++) {
        must(data[i] == byte_of(w, from, rank, first + i), "wrong data of a rank, in request", from, w->number);
    }
    free(data);
}

/* ---- requests ---- */

static int pick_parts(unsigned long *random)
{
    return (int[]){1, 2, 3, 4, 6, 8, 12, 16}[draw(random, 8)];
}

static void make_request(work_t *w, int number)
{
    int parts, uneven;
    long rung = on_node ? count_of(DOORBELLS) : 0, expired = on_node ? count_of(CANCELLED) : 0;

    *w = (work_t){.number = number, .send = w->send, .recv = w->recv};
    w->gathers = (int)draw(&same, 2);
    w->in_place = w->gathers && draw(&same, 3) == 0;
    w->bytes = 48 * (int[]){1, 2, 5, 40, MOST_BYTES / 48}[draw(&same, 5)];
    parts = pick_parts(&same);
    uneven = draw(&same, 3) == 0;
    w->sparts = uneven ? pick_parts(&own) : parts;
    w->rparts = uneven ? pick_parts(&own) : pick_parts(&same);
    w->send_bytes = (size_t)(w->gathers ? 1 : ranks) * (size_t)w->bytes;
    w->recv_bytes = (size_t)ranks * (size_t)w->bytes;
    must((w->gathers ? MPIX_Pallgather_init : MPIX_Palltoall_init)(
             w->in_place ? MPI_IN_PLACE : w->send, w->sparts, w->bytes / w->sparts, MPI_BYTE, w->recv, w->rparts,
             w->bytes / w->rparts, MPI_BYTE, MPI_COMM_WORLD, MPI_INFO_NULL, &w->request) == MPI_SUCCESS,
         "init", 0, 0);
    must(MPIX_Prequest_create(w->request, &w->words) == MPI_SUCCESS, "words", 0, 0);
    w->queues = on_node ? count_of(DOORBELLS) - rung : 0;
    must(!on_node || (w->queues > 0 && count_of(CANCELLED) == expired), "not armed", w->queues, 0);
}

static void look(work_t *w, int number)
{
    int arrived;

    if (w->seen[number]) {
        return;
    }
    if (draw(&own, 3) == 0) {
        must(MPIX_Parrived(w->request, number, &arrived) == MPI_SUCCESS, "Parrived", number, 0);
    } else {
        arrived = __atomic_load_n(&w->words.arrived[number], __ATOMIC_ACQUIRE) == w->words.arrived_value;
    }
    if (arrived) {
        int bytes = w->bytes / w->rparts;

        w->seen[number] = 1;
        w->seen_count++;
        if (draw(&own, 2)) {
            check(w, number / w->rparts, number % w->rparts * bytes, bytes);
        }
    }
}

static void begin(work_t *w)
{
    for (int i = 0; i < w->words.nready; i++) {
        must(w->words.ready[i] == 0, "a word is not 0", i, (long)w->words.ready[i]);
    }
    for (int i = 0; i < w->words.narrived; i++) {
        must(w->words.arrived[i] == 0, "a partition of the next round has come", i, w->number);
    }
    set_all(w->recv, STALE, w->recv_bytes);
    set_all(w->send, UNMADE, w->send_bytes);
    memset(w->seen, 0, sizeof(w->seen));
    w->made = w->seen_count = 0;
    for (int i = 0; i < w->sparts; i++) {
        int k = (int)draw(&own, (unsigned)i + 1);
        w->order[i] = w->order[k];
        w->order[k] = i;
    }
    if (draw(&own, 4) == 0) {
        usleep(draw(&own, 2000)); /* so that the other ranks have started */
    }
    must(MPI_Start(&w->request) == MPI_SUCCESS, "start", 0, 0);
}

static void make_next(work_t *w)
{
    int part = w->order[w->made++];

    make(w, part);
    if (draw(&own, 2)) {
        must(MPIX_Pready(part, w->request) == MPI_SUCCESS, "Pready", part, 0);
    } else {
        __atomic_store_n(&w->words.ready[part], w->words.ready_value, __ATOMIC_RELEASE);
    }
}

static void end(work_t *w)
{
    must(MPIX_Wait(&w->request, MPI_STATUS_IGNORE) == MPI_SUCCESS, "wait", 0, 0);
    for (int from = 0; from < ranks; from++) {
        check(w, from, 0, w->bytes);
    }
    must(MPIX_Prequest_next(&w->words) == MPI_SUCCESS, "words", 0, 0);
    w->rounds++;
}

static void run_round(void)
{
    int left = works_count;

    for (int i = 0; i < works_count; i++) {
        begin(&works[i]);
    }
    while (left > 0) {
        work_t *w = &works[draw(&own, (unsigned)works_count)];

        if (w->made < w->sparts && draw(&own, 2)) {
            make_next(w);
        }
        for (int i = 0; i < w->words.narrived; i++) {
            look(w, i);
        }
        sched_yield();
        left = works_count;
        for (int i = 0; i < works_count; i++) {
            left -= works[i].made == works[i].sparts && works[i].seen_count == works[i].words.narrived;
        }
    }
    for (int i = 0; i < works_count; i++) {
        end(&works[i]);
    }
}

/* Frees a request in the middle of a round: partitions that are not ready are sent as they are. */
static void free_half_ready(work_t *w)
{
    int some = (int)draw(&own, (unsigned)w->sparts + 1);

    begin(w);
    while (w->made < some) {
        make_next(w);
    }
    for (int i = w->made; i < w->sparts; i++) {
        make(w, w->order[i]);
    }
    must(MPIX_Request_free(&w->request) == MPI_SUCCESS && w->request == MPI_REQUEST_NULL, "free", 0, 0);
    for (int from = 0; from < ranks; from++) {
        check(w, from, 0, w->bytes);
    }
}

/* Compares doorbells: one for each start, and one for the last arming, which has no start. */
static void compare(const long *before, long node_before, long rounds)
{
    long now[COUNTERS], expected = 0, node;

    for (int i = 0; i < works_count; i++) {
        expected += works[i].queues * (rounds + 1);
    }
    for (int i = 0; i < COUNTERS; i++) {
        now[i] = count_of(i) - before[i];
    }
    node = node_doorbells() - node_before;
    must(now[ORDER] == 0 && now[LATE] == 0, "rounds were taken back", now[ORDER], now[LATE]);
    must(now[DOORBELLS] - now[NUDGES] == expected, "doorbells", now[DOORBELLS] - now[NUDGES], expected);
    must(node <= now[DOORBELLS], "doorbells that the component has not counted", node, now[DOORBELLS]);
    must(now[ARMED] == works_count * (rounds + 1), "armed", now[ARMED], works_count * (rounds + 1));
    must(now[STARTED] + now[CANCELLED] == now[ARMED], "left armed", now[ARMED], now[STARTED] + now[CANCELLED]);
}

static void run_set(int first, int seeds)
{
    long before[COUNTERS], node_before;

    same = (unsigned long)first * 7919u;
    own = same + 1000003u * (unsigned long)(rank + 1);
    (void)draw(&same, 2);
    (void)draw(&own, 2);
    for (int i = 0; on_node && i < COUNTERS; i++) {
        before[i] = count_of(i);
    }
    node_before = on_node ? node_doorbells() : 0;
    works_count = 1 + (int)draw(&same, REQUESTS);
    for (int i = 0; i < works_count; i++) {
        make_request(&works[i], i);
    }
    for (int i = 0; i < seeds; i++) {
        seed = first + i;
        own = (unsigned long)seed * 7919u + 1000003u * (unsigned long)(rank + 1);
        (void)draw(&own, 2);
        run_round();
    }
    for (int i = 0; i < works_count; i++) {
        free_half_ready(&works[i]);
    }
    if (on_node) {
        compare(before, node_before, seeds + 1);
    }
}

/* A first call, which opens the engine and makes the queues. */
static void warm_up(void)
{
    unsigned char *memory = take((size_t)ranks * 64);

    MPI_Allgather(MPI_IN_PLACE, 64, MPI_BYTE, memory, 64, MPI_BYTE, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    give(memory);
}

int main(int argc, char **argv)
{
    int given, devices, first, seeds, left;

    if (argc != 5) {
        return 2;
    }
    on_node = !strcmp(argv[1], "hip");
    MPI_Init_thread(&argc, &argv, strcmp(argv[2], "multiple") ? MPI_THREAD_SERIALIZED : MPI_THREAD_MULTIPLE, &given);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    must(ranks <= MOST_RANKS, "too many ranks", ranks, MOST_RANKS);
    if (on_node) {
        must(hip_open(&devices), "no device", 0, 0);
        hip_must("hipSetDevice", hip.hipSetDevice(rank % devices));
        open_counters(given);
        warm_up();
    }
    for (int i = 0; i < REQUESTS; i++) { /* once for all sets, because HIP 5.2 does not free all memory */
        works[i].send = take((size_t)ranks * MOST_BYTES);
        works[i].recv = take((size_t)ranks * MOST_BYTES);
    }
    first = atoi(argv[3]);
    seeds = left = atoi(argv[4]);
    for (; left > 0; left -= SEEDS_A_SET, first += SEEDS_A_SET) {
        run_set(first, left < SEEDS_A_SET ? left : SEEDS_A_SET);
    }
    for (int i = 0; i < REQUESTS; i++) {
        give(works[i].send);
        give(works[i].recv);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        printf("armed: seeds %d to %d, 0 wrong\n", atoi(argv[3]), atoi(argv[3]) + seeds - 1);
    }
    if (on_node) {
        MPI_T_pvar_session_free(&session);
        MPI_T_finalize(); /* before MPI_Finalize, because the last of the two closes the component */
    }
    MPI_Finalize();
    return 0;
}
