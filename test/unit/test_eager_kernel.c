/* The kernel of eager starts on cores: every byte arrives in its place and no other one changes, from start to start, whatever the
 * sizes and addresses are; and what a packet may not be taken for. */
#include <check.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define DMA_EAGER_FN    static inline
#define DMA_EAGER_POLLS 3

static inline void *dma_eager_at(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

static inline void dma_eager_put(uint64_t address, const uint64_t *w)
{
    memcpy(dma_eager_at(address), w, 16);
}

static inline void dma_eager_get(uint64_t address, uint64_t *w)
{
    memcpy(w, dma_eager_at(address), 16);
}

static inline void dma_eager_store32(uint64_t address, uint32_t value)
{
    *(uint32_t *)dma_eager_at(address) = value;
}

static inline void dma_eager_release32(uint64_t address, uint32_t value)
{
    *(uint32_t *)dma_eager_at(address) = value;
}

static inline uint32_t dma_eager_load32(uint64_t address)
{
    return *(const uint32_t *)dma_eager_at(address);
}

#include "gpu/eager_kernel.h"
#include "libunit.h"

enum { MOST_RANKS = DMA_EAGER_MOST_ROWS, MOST = 700, GAP = 0xA5, STARTS = 6 };

/* A rank: its two buffers with gaps, its packets, its words. */
typedef struct rank {
    unsigned char send[MOST_RANKS * (MOST + 16)], recv[MOST_RANKS * (MOST + 16)], expected[MOST_RANKS * (MOST + 16)];
    unsigned char *packets;
    uint32_t ready, stop, missed, ends[DMA_EAGER_BLOCKS];
    dma_eager_args_t args;
} rank_t;

typedef struct job {
    int n;
    bool gathers, in_place;
    uint64_t part;
    uint32_t bytes[MOST_RANKS][MOST_RANKS]; /* from, to */
    rank_t ranks[MOST_RANKS];
} job_t;

static job_t job;

static uint32_t below(uint32_t n)
{
    return (uint32_t)random() % n;
}

static uint64_t address(const void *p)
{
    return (uintptr_t)p;
}

/* Of a block in a buffer: not aligned, and with gaps of 1 to 16 bytes. */
static size_t place(const uint32_t *bytes, int block)
{
    size_t at = 1 + (size_t)bytes[0] % 8;

    for (int i = 0; i < block; i++) {
        at += bytes[i] + 1 + (size_t)bytes[i] % 16;
    }
    return at;
}

static unsigned char byte_of(uint32_t start, int from, int to, uint32_t k)
{
    return (unsigned char)(start * 31 + (uint32_t)from * 57 + (job.gathers ? 0 : (uint32_t)to * 13) + k * 3 + k / 256);
}

static void choose_sizes(void)
{
    uint32_t most = (uint32_t[]){1, 8, 64, MOST}[below(4)];

    for (int a = 0; a < job.n; a++) {
        for (int b = 0; b < job.n; b++) {
            uint32_t bytes = below(5) ? below(most + 1) : 0;

            job.bytes[a][b] = job.gathers && b ? job.bytes[a][0] : bytes;
        }
    }
    for (int a = 0; a < job.n && job.in_place && !job.gathers; a++) {
        for (int b = 0; b < a; b++) {
            job.bytes[a][b] = job.bytes[b][a];
        }
    }
}

static void lay_out(int r)
{
    rank_t *own = &job.ranks[r];
    uint32_t received[MOST_RANKS], sent[MOST_RANKS];
    size_t at[MOST_RANKS];

    for (int i = 0; i < job.n; i++) {
        received[i] = job.bytes[i][r];
        sent[i] = job.bytes[r][i];
    }
    for (int i = 0; i < job.n; i++) {
        dma_eager_row_t *row = &own->args.rows[i];

        at[i] = place(received, i);
        *row = (dma_eager_row_t){.src_bytes = sent[i], .dst_bytes = received[i], .dst = address(own->recv + at[i])};
        row->src = job.in_place ? address(own->recv + place(received, job.gathers ? r : i))
                                : address(own->send + place(sent, job.gathers ? 0 : i));
        if (i != r) {
            row->out = address(job.ranks[i].packets + (uint64_t)r * job.part);
            row->in = address(own->packets + (uint64_t)i * job.part);
        }
    }
}

static void make_job(int n, bool gathers, bool in_place)
{
    memset(&job, 0, sizeof(job));
    job.n = n;
    job.gathers = gathers;
    job.in_place = in_place;
    job.part = (uint64_t)dma_eager_packets(MOST) * DMA_EAGER_PACKET;
    choose_sizes();
    for (int r = 0; r < n; r++) {
        rank_t *own = &job.ranks[r];

        own->packets = calloc(2 * (size_t)n, job.part);
        own->args.bank_bytes = (uint64_t)n * job.part;
        own->args.ready = address(&own->ready);
        own->args.stop = address(&own->stop);
        own->args.missed = address(&own->missed);
        own->args.ends = address(own->ends);
    }
    for (int r = 0; r < n; r++) {
        lay_out(r);
    }
}

static void free_job(void)
{
    for (int r = 0; r < job.n; r++) {
        free(job.ranks[r].packets);
    }
}

static void fill(int r, uint32_t start)
{
    rank_t *own = &job.ranks[r];

    memset(own->send, GAP, sizeof(own->send));
    memset(own->recv, GAP, sizeof(own->recv));
    memset(own->expected, GAP, sizeof(own->expected));
    for (int i = 0; i < job.n; i++) {
        const dma_eager_row_t *row = &own->args.rows[i];

        for (uint32_t k = 0; k < row->src_bytes; k++) {
            ((unsigned char *)(uintptr_t)row->src)[k] = byte_of(start, r, i, k);
        }
        for (uint32_t k = 0; k < row->dst_bytes; k++) {
            own->expected[row->dst - address(own->recv) + k] = byte_of(start, i, r, k);
        }
    }
}

typedef int step_t(const dma_eager_args_t *args, dma_eager_thread_t t);

static int send_only(const dma_eager_args_t *args, dma_eager_thread_t t)
{
    if (args->rows[t.row].out) {
        dma_eager_send(args, &args->rows[t.row], t);
    }
    return 1;
}

/* Threads in any order; `threads` of them share a row. Have all received all? */
static int run(int r, uint32_t threads, step_t *step)
{
    uint32_t n = threads * (uint32_t)job.n, skip = below(n);
    int complete = 1;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = (i + skip) % n;

        complete &=
            step(&job.ranks[r].args, (dma_eager_thread_t){.first = k % threads, .step = threads, .row = k / threads});
    }
    return complete;
}

static void start_all(uint32_t epoch, uint32_t start)
{
    uint32_t threads = 1 + below(40);

    for (int r = 0; r < job.n; r++) {
        job.ranks[r].args.epoch = epoch;
        job.ranks[r].args.steps = DMA_EAGER_SEND | DMA_EAGER_RECV;
        fill(r, start);
        run(r, threads, send_only);
    }
    for (int r = 0; r < job.n; r++) {
        job.ranks[r].args.patience = below(2);
        ck_assert(run(r, threads, dma_eager_run));
        ck_assert_uint_eq(job.ranks[r].ready, epoch);
    }
    for (int r = 0; r < job.n; r++) {
        ck_assert_msg(!memcmp(job.ranks[r].recv, job.ranks[r].expected, sizeof(job.ranks[r].recv)),
                      "%d ranks, gathers %d, in place %d, start %u: rank %d", job.n, job.gathers, job.in_place, start,
                      r);
    }
}

/* Over the end of the epochs, too. */
START_TEST(every_byte)
{
    static const uint32_t first[] = {1, UINT32_MAX - 2, 1000};

    srandom((unsigned)unit_seed() + (unsigned)_i);
    for (int i = 0; i < 20; i++) {
        uint32_t epoch = first[below(3)];

        make_job(2 + (int)below(i % 4 ? 4 : MOST_RANKS - 1), _i & 1, _i & 2);
        for (uint32_t s = 0; s < STARTS; s++) {
            start_all(epoch + s, s);
        }
        free_job();
    }
}
END_TEST

/* Rank 0 receives, and is stopped: it has accepted nothing. */
static void must_accept_nothing(uint32_t epoch)
{
    rank_t *own = &job.ranks[0];

    own->stop = 1;
    own->args.epoch = epoch;
    memset(own->recv, GAP, sizeof(own->recv));
    for (uint32_t row = 1; row < (uint32_t)job.n; row++) {
        dma_eager_recv(&own->args, &own->args.rows[row], (dma_eager_thread_t){.first = 0, .step = 1, .row = row});
    }
    for (size_t i = 0; i < sizeof(own->recv); i++) {
        ck_assert_uint_eq(own->recv[i], GAP);
    }
    own->stop = 0;
}

static void make_full_job(void)
{
    make_job(3, true, false);
    while (!job.bytes[1][0] || !job.bytes[2][0]) {
        free_job();
        make_job(3, true, false);
    }
}

START_TEST(nothing_from_other_starts)
{
    srandom((unsigned)unit_seed());
    make_full_job();
    must_accept_nothing(1);
    for (uint32_t s = 0; s < STARTS; s++) {
        start_all(1 + s, s);
        must_accept_nothing(2 + s);
        must_accept_nothing(3 + s);
    }
    free_job();
}
END_TEST

/* One half of a packet has come. */
START_TEST(no_halves)
{
    srandom((unsigned)unit_seed());
    for (int half = 0; half < 2; half++) {
        make_full_job();
        start_all(1, 0);
        start_all(2, 1);
        for (int r = 1; r < job.n; r++) {
            uint64_t *packet =
                (uint64_t *)(void *)(job.ranks[0].packets + job.ranks[0].args.bank_bytes + (uint64_t)r * job.part);

            packet[half] = (uint64_t)3 << 32 | 0x01020304;
        }
        must_accept_nothing(3);
        free_job();
    }
}
END_TEST

/* A block of 0 bytes has a packet, too. */
START_TEST(waits_for_empty_blocks)
{
    rank_t *own = &job.ranks[0];
    uint64_t words[2], packet;
    uint32_t vain = 0;

    srandom((unsigned)unit_seed());
    make_job(2, true, false);
    memset(job.bytes, 0, sizeof(job.bytes));
    lay_out(0);
    lay_out(1);
    own->args.epoch = job.ranks[1].args.epoch = 1;
    own->stop = 1;
    packet = own->args.rows[1].in + own->args.bank_bytes;
    ck_assert(!dma_eager_wait(&own->args, packet, words, &vain));
    run(1, 1, send_only);
    ck_assert(dma_eager_wait(&own->args, packet, words, &vain));
    free_job();
}
END_TEST

START_TEST(says_the_end)
{
    make_job(2, true, false);
    job.ranks[0].args.epoch = 77;
    dma_eager_end(&job.ranks[0].args, 3, true);
    ck_assert_uint_eq(job.ranks[0].ends[3], 77);
    ck_assert_uint_eq(job.ranks[0].ends[2], 0);
    ck_assert_uint_eq(job.ranks[0].missed, 0);
    dma_eager_end(&job.ranks[0].args, 2, false);
    ck_assert_uint_eq(job.ranks[0].ends[2], 77);
    ck_assert_uint_eq(job.ranks[0].missed, 77);
    free_job();
}
END_TEST

/* A rank receives what comes soon, in place too. When all have sent, it receives everything. */
START_TEST(patience)
{
    enum { THREADS = 3, POLLS = 5 };

    srandom((unsigned)unit_seed() + (unsigned)_i);
    make_job(3, _i & 1, _i & 2);
    for (uint32_t s = 1; s <= STARTS; s++) {
        rank_t *own = &job.ranks[0];

        for (int r = 0; r < job.n; r++) {
            job.ranks[r].args.epoch = s;
            job.ranks[r].args.steps = DMA_EAGER_SEND | DMA_EAGER_RECV;
            job.ranks[r].args.patience = POLLS;
            fill(r, s);
        }
        run(1, THREADS, send_only);
        ck_assert(!run(0, THREADS, dma_eager_run)); /* it ends, without rank 2 */
        run(2, THREADS, send_only);
        own->args.steps = DMA_EAGER_RECV;
        own->args.patience = s & 1 ? POLLS : 0;
        ck_assert(run(0, THREADS, dma_eager_run));
        ck_assert_mem_eq(own->recv, own->expected, sizeof(own->recv));
        for (int r = 1; r < job.n; r++) {
            ck_assert(run(r, THREADS, dma_eager_run));
            ck_assert_mem_eq(job.ranks[r].recv, job.ranks[r].expected, sizeof(own->recv));
        }
    }
    free_job();
}
END_TEST

/* It is that of a thread, not of a packet. */
START_TEST(patience_of_a_thread)
{
    enum { POLLS = 7 };
    dma_eager_args_t args = {.epoch = 1, .patience = POLLS};
    uint64_t packet[2] = {0, 0}, words[2];
    uint32_t vain = POLLS - 2;

    ck_assert(!dma_eager_wait(&args, address(packet), words, &vain));
    ck_assert_uint_eq(vain, POLLS);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("eager_kernel");

    unit_loop(s, every_byte, 0, 4, 60);
    unit_test(s, nothing_from_other_starts, 20);
    unit_test(s, no_halves, 20);
    unit_test(s, waits_for_empty_blocks, 20);
    unit_test(s, says_the_end, 20);
    unit_loop(s, patience, 0, 4, 20);
    unit_test(s, patience_of_a_thread, 20);
    return unit_main(s);
}
