/*
 * From queue programs to packets: what is in the ring, read back by a decoder of its own, and what the packets do when they
 * are executed out of order, in rings that are too small for a program.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/sdma/run/lower.h"
#include "libkfd_fake.h"
#include "libsdma_decode.h"
#include "libunit.h"

#define STEP   0x500000001000u
#define TEMP   0x600000000000u
#define LINE   0x700000000040u
#define EPOCH  77
#define GIB    (UINT64_C(1) << 30)
#define MOST   4000 /* packets of a program */
#define SEND   0x100000000000u
#define TARGET 0x200000000000u /* of rank 0; the next is behind it */
#define APART  0x10000000000u

/* ---- a run that is a few operations ---- */

typedef struct scene {
    dma_op_t ops[40];
    dma_prog_t prog;
    dma_plan_t plan;
    dma_run_t run;
    dma_target_t targets[4];
    dma_lower_target_t to;
    dma_queue_t queue;
    uint64_t read, write, doorbell;
    uint32_t *ring;
    sdma_packet_t packets[MOST];
    size_t npackets;
} scene_t;

static const dma_gen_t *gen_of(uint32_t device_id)
{
    const char *reason;
    const dma_gen_t *gen = dma_gen_find(device_id, 90008, &reason); /* the version counts for unknown devices only */

    ck_assert_ptr_nonnull(gen);
    return gen;
}

static void scene_begin(scene_t *s, const dma_gen_t *gen, uint64_t ring_bytes)
{
    dma_ring_memory_t memory;

    memset(s, 0, sizeof(*s));
    s->ring = aligned_alloc(4096, ring_bytes);
    memory = (dma_ring_memory_t){
        .ring = s->ring, .bytes = ring_bytes, .read_ptr = &s->read, .write_ptr = &s->write, .doorbell = &s->doorbell};
    ck_assert_int_eq(dma_ring_init(&s->queue.ring, &memory), DMA_OK);
    s->queue.step_addr = STEP;
    s->queue.temp = TEMP;
    s->prog = (dma_prog_t){.link = 1, .ops = s->ops};
    s->plan = (dma_plan_t){.nranks = 4, .nprogs = 1, .progs = &s->prog, .gpu = true};
    s->run = (dma_run_t){.plan = &s->plan, .targets = s->targets, .epoch = EPOCH};
    s->run.send.addr = (char *)(uintptr_t)SEND;
    for (unsigned r = 0; r < 4; r++) {
        s->targets[r].addr = TARGET + r * APART;
    }
    s->to = (dma_lower_target_t){.gen = gen, .queue = &s->queue, .line = LINE, .swaps = true, .bcsts = true};
}

static void scene_end(scene_t *s)
{
    free(s->ring);
}

/* The operand is relative to the send buffer (rank < 0), or to a rank's receive buffer. */
static dma_operand_t at(int rank, uint64_t offset)
{
    return (dma_operand_t){.base = rank < 0 ? DMA_BASE_SEND : DMA_BASE_RECV, .rank = rank, .offset = offset};
}

static uint64_t address(int rank, uint64_t offset)
{
    return (rank < 0 ? SEND : TARGET + (uint64_t)rank * APART) + offset;
}

static dma_op_t *add(scene_t *s, dma_op_code_t code, uint64_t bytes)
{
    dma_op_t *op = &s->ops[s->prog.nops++];

    *op = (dma_op_t){.code = (uint8_t)code, .len = {.kind = DMA_LEN_CONST, .len = bytes}};
    return op;
}

static void add_copy(scene_t *s, int rank, uint64_t dst, uint64_t src, uint64_t bytes)
{
    dma_op_t *op = add(s, DMA_OP_COPY, bytes);

    op->dst[0] = at(rank, dst);
    op->src = at(-1, src);
}

static void add_copy2(scene_t *s, uint64_t dst0, uint64_t dst1, uint64_t src, uint64_t bytes)
{
    dma_op_t *op = add(s, DMA_OP_COPY2, bytes);

    op->dst[0] = at(1, dst0);
    op->dst[1] = at(2, dst1);
    op->src = at(-1, src);
}

static void add_swap(scene_t *s, uint64_t theirs, uint64_t ours, uint64_t bytes)
{
    dma_op_t *op = add(s, DMA_OP_SWAP, bytes);

    op->dst[0] = at(1, theirs);
    op->src = at(0, ours);
}

/* Reads back what is in the ring. */
static void read_back(scene_t *s)
{
    const char *why = "";

    for (uint64_t i = 0; i < s->queue.ring.reserved / 4;) {
        size_t n = sdma_decode(s->ring + i, s->queue.ring.reserved / 4 - i, &s->packets[s->npackets], &why);

        ck_assert_msg(n > 0, "dword %llu: %s", (unsigned long long)i, why);
        ck_assert_uint_lt(++s->npackets, MOST);
        i += n;
    }
    ck_assert_uint_eq(s->npackets, s->queue.ring.unpublished_packets);
}

/* Lowers all of it into the ring and reads it back. */
static void lower(scene_t *s)
{
    dma_lower_t from = {0};

    ck_assert_int_eq(dma_lower_program(&s->run, &s->prog, &s->to, &from), DMA_OK);
    read_back(s);
}

static void expect_copy(const sdma_packet_t *p, uint64_t dst, uint64_t src, uint64_t bytes)
{
    ck_assert_int_eq(p->kind, SDMA_COPY);
    ck_assert_uint_eq(p->dst, dst);
    ck_assert_uint_eq(p->src, src);
    ck_assert_uint_eq(p->bytes, bytes);
}

/* Waits for what came before on its queue. Returns the value that it waits for. */
static uint64_t expect_drain(const sdma_packet_t *p)
{
    ck_assert_int_eq(p[0].kind, SDMA_FENCE);
    ck_assert_uint_eq(p[0].addr, STEP);
    ck_assert_int_eq(p[1].kind, SDMA_POLL);
    ck_assert_uint_eq(p[1].addr, STEP);
    ck_assert_uint_eq(p[1].test, 3);
    ck_assert_uint_eq(p[1].value, p[0].value);
    ck_assert_uint_eq(p[1].mask, UINT32_MAX);
    return p[0].value;
}

/* ---- what is in the ring ---- */

START_TEST(copies)
{
    scene_t s;

    scene_begin(&s, gen_of(0x74a1), 65536);
    add_copy(&s, 1, 3, 5, 1000);
    add_copy(&s, 2, 0, 0, 0); /* nothing */
    add_copy(&s, 3, 1 << 20, 7, 1);
    add(&s, DMA_OP_SIGNAL, 0);
    lower(&s);
    ck_assert_uint_eq(s.npackets, 3);
    expect_copy(&s.packets[0], address(1, 3), address(-1, 5), 1000);
    expect_copy(&s.packets[1], address(3, 1 << 20), address(-1, 7), 1);
    ck_assert_int_eq(s.packets[2].kind, SDMA_FENCE);
    ck_assert_uint_eq(s.packets[2].addr, LINE);
    ck_assert_uint_eq(s.packets[2].value, EPOCH);
    scene_end(&s);
}
END_TEST

/* More than one packet may say, on either kind of generation: pieces without a gap, none too long. */
START_TEST(long_copies)
{
    static const uint32_t devices[] = {0x74a1, 0x7408};
    const dma_gen_t *gen = gen_of(devices[_i]);
    uint64_t bytes = 200 * GIB + 12345, done = 0;
    scene_t s;

    scene_begin(&s, gen, 65536);
    add_copy(&s, 1, 0, 64, bytes);
    lower(&s);
    for (size_t i = 0; i < s.npackets; i++) {
        ck_assert_uint_le(s.packets[i].bytes, gen->max_copy);
        expect_copy(&s.packets[i], address(1, done), address(-1, 64 + done), s.packets[i].bytes);
        done += s.packets[i].bytes;
    }
    ck_assert_uint_eq(done, bytes);
    ck_assert_uint_eq(s.npackets, dma_gen_pieces(bytes, gen->max_copy));
    scene_end(&s);
}
END_TEST

/* The part of a block that is meant, and blocks that are where their displacements say. */
START_TEST(parts_and_displacements)
{
    static const uint64_t counts[] = {1000, 2001, 64, 0};
    static const int64_t displs[] = {5000, -256, 100000, 7};
    scene_t s;
    dma_op_t *op;

    scene_begin(&s, gen_of(0x74a1), 65536);
    s.run.recv = (dma_blocks_t){.counts = counts, .displs = displs};
    s.run.send = (dma_blocks_t){.addr = (char *)(uintptr_t)SEND, .counts = counts, .displs = displs};
    s.targets[1].displs = displs;
    s.targets[2].bytes = 4096;
    for (unsigned part = DMA_LOWER; part <= DMA_UPPER; part++) {
        op = add(&s, DMA_OP_COPY, 1);
        op->len = (dma_len_t){.kind = DMA_LEN_SEND, .part = (uint8_t)part, .len = 1};
        op->dst[0] = (dma_operand_t){.base = DMA_BASE_RECV, .rank = 1, .block = 0};
        op->src = (dma_operand_t){.base = DMA_BASE_SEND, .rank = 0, .block = 1};
    }
    op = add(&s, DMA_OP_COPY, 0);
    op->len = (dma_len_t){.kind = DMA_LEN_RECV, .len = 2};
    op->dst[0] = (dma_operand_t){.base = DMA_BASE_RECV, .rank = 2, .block = 3};
    op->src = (dma_operand_t){.base = DMA_BASE_SEND, .rank = 0, .block = 2};
    lower(&s);
    ck_assert_uint_eq(s.npackets, 3);
    expect_copy(&s.packets[0], address(1, 5000), SEND - 256, 960);
    expect_copy(&s.packets[1], address(1, 5960), SEND - 256 + 960, 2001 - 960);
    expect_copy(&s.packets[2], address(2, 3 * 4096), SEND + 100000, 64);
    scene_end(&s);
}
END_TEST

START_TEST(two_places)
{
    scene_t s;

    scene_begin(&s, gen_of(0x74a1), 65536);
    add_copy2(&s, 32, 96, 5, 700); /* alike modulo 32 */
    add_copy2(&s, 33, 96, 5, 700); /* not */
    lower(&s);
    ck_assert_uint_eq(s.npackets, 3);
    ck_assert_int_eq(s.packets[0].kind, SDMA_BROADCAST);
    ck_assert_uint_eq(s.packets[0].dst, address(1, 32));
    ck_assert_uint_eq(s.packets[0].dst1, address(2, 96));
    ck_assert_uint_eq(s.packets[0].src, address(-1, 5));
    ck_assert_uint_eq(s.packets[0].bytes, 700);
    expect_copy(&s.packets[1], address(1, 33), address(-1, 5), 700);
    expect_copy(&s.packets[2], address(2, 96), address(-1, 5), 700);
    scene_end(&s);

    scene_begin(&s, gen_of(0x74a1), 65536);
    s.to.bcsts = false; /* the self-test has found that they do not work */
    add_copy2(&s, 0, 0, 0, 700);
    lower(&s);
    ck_assert_uint_eq(s.npackets, 2);
    expect_copy(&s.packets[1], address(2, 0), address(-1, 0), 700);
    scene_end(&s);
}
END_TEST

/* theirs -> temp, ours -> theirs, temp -> ours, each behind the one before. */
static uint64_t expect_exchange(const sdma_packet_t *p, uint64_t theirs, uint64_t ours, uint64_t bytes)
{
    uint64_t a, b, c;

    expect_copy(&p[0], TEMP, address(1, theirs), bytes);
    a = expect_drain(&p[1]);
    expect_copy(&p[3], address(1, theirs), address(0, ours), bytes);
    b = expect_drain(&p[4]);
    expect_copy(&p[6], address(0, ours), TEMP, bytes);
    c = expect_drain(&p[7]);
    ck_assert_uint_ne(a, b);
    ck_assert_uint_ne(b, c);
    ck_assert_uint_ne(a, c);
    return c;
}

START_TEST(exchanges)
{
    scene_t s;

    scene_begin(&s, gen_of(0x74a1), 65536);
    add_swap(&s, 64, 128, 6400); /* all by one packet */
    ck_assert_uint_eq(dma_lower_temps(&s.run, &s.prog, &s.to), 0);
    add_swap(&s, 8192, 16384, 6410); /* and a tail */
    ck_assert_uint_eq(dma_lower_temps(&s.run, &s.prog, &s.to), DMA_LOWER_QUEUE_TEMP);
    add_swap(&s, 30001, 40960, 1000); /* not aligned: nothing of it */
    add_swap(&s, 0, 0, 0);
    lower(&s);
    ck_assert_uint_eq(s.npackets, 1 + (1 + 9) + 9);
    ck_assert_int_eq(s.packets[0].kind, SDMA_SWAP);
    ck_assert_uint_eq(s.packets[0].dst, address(0, 128));
    ck_assert_uint_eq(s.packets[0].src, address(1, 64));
    ck_assert_uint_eq(s.packets[0].bytes, 6400);
    ck_assert_int_eq(s.packets[1].kind, SDMA_SWAP);
    ck_assert_uint_eq(s.packets[1].bytes, 6400);
    expect_exchange(&s.packets[2], 8192 + 6400, 16384 + 6400, 10);
    expect_exchange(&s.packets[11], 30001, 40960, 1000);
    scene_end(&s);
}
END_TEST

/* Through memory of a bounded size, piece by piece; where exchanges are not to be used, or the generation has none. */
START_TEST(long_exchanges)
{
    uint64_t bytes = 2 * DMA_QUEUE_TEMP + 640;
    scene_t s;

    scene_begin(&s, gen_of(_i ? 0x7408 : 0x74a1), 65536);
    s.to.swaps = _i;
    add_swap(&s, 0, 0, bytes);
    ck_assert_uint_eq(dma_lower_temps(&s.run, &s.prog, &s.to), DMA_LOWER_QUEUE_TEMP);
    lower(&s);
    ck_assert_uint_eq(s.npackets, 27);
    for (uint64_t i = 0; i < 3; i++) {
        expect_exchange(&s.packets[9 * i], i * DMA_QUEUE_TEMP, i * DMA_QUEUE_TEMP, i < 2 ? DMA_QUEUE_TEMP : 640);
    }
    scene_end(&s);
}
END_TEST

/* On GPUs where a POLL may end early, programs have none: packets that depend on a copy are not built before the CPU has seen the
 * end of the copy. The temporary memory belongs to the program meanwhile, because other programs may run in between. */
START_TEST(exchanges_without_polls)
{
    static const struct {
        int dst, src; /* 0: ours, 1: theirs, 2: memory in between */
    } moves[] = {{2, 1}, {1, 0}, {0, 2}};
    const uint64_t places[] = {address(0, 8192), address(1, 64), TEMP};
    const uint64_t bytes = DMA_SHAPED_TEMP + 100;
    dma_shaped_t shaped = {.temp = TEMP};
    _Atomic uint32_t word = INT32_MAX - 2; /* the counter begins again on the way */
    dma_lower_t from = {0};
    scene_t s;

    scene_begin(&s, gen_of(0), 65536);
    s.to.shaped = &shaped;
    s.queue.temp = 0;
    s.queue.step = word;
    s.queue.step_word = &word;
    add_swap(&s, 64, 8192, bytes);
    ck_assert_uint_eq(dma_lower_temps(&s.run, &s.prog, &s.to), DMA_LOWER_OWN_TEMP);
    for (int drains = 1; drains <= 6; drains++) {
        for (int looks = 0; looks < 2; looks++) {
            ck_assert_int_eq(dma_lower_program(&s.run, &s.prog, &s.to, &from), DMA_AGAIN);
            ck_assert_uint_eq(s.queue.ring.unpublished_packets, 2 * (unsigned)drains);
        }
        word = drains % 2 ? s.queue.step : s.queue.step + 5; /* others' fences may be behind it */
        s.queue.step = word;
    }
    ck_assert_int_eq(dma_lower_program(&s.run, &s.prog, &s.to, &from), DMA_OK);
    read_back(&s);
    ck_assert_uint_eq(s.npackets, 12);
    for (size_t i = 0; i < 6; i++) {
        uint64_t skip = i < 3 ? 0 : DMA_SHAPED_TEMP, dst = places[moves[i % 3].dst], src = places[moves[i % 3].src];

        expect_copy(&s.packets[2 * i], dst + (dst == TEMP ? 0 : skip), src + (src == TEMP ? 0 : skip),
                    i < 3 ? DMA_SHAPED_TEMP : 100);
        ck_assert_int_eq(s.packets[2 * i + 1].kind, SDMA_FENCE);
        ck_assert_uint_eq(s.packets[2 * i + 1].addr, STEP);
        ck_assert_uint_le(s.packets[2 * i + 1].value, INT32_MAX);
    }
    scene_end(&s);
}
END_TEST

/* They have been reached when the program runs. */
START_TEST(waits)
{
    scene_t s;

    scene_begin(&s, gen_of(0x74a1), 65536);
    add(&s, DMA_OP_WAIT, 0)->flag = (dma_flag_ref_t){.kind = DMA_FLAG_ENTRY, .rank = 2};
    add(&s, DMA_OP_SIGNAL, 0);
    lower(&s);
    ck_assert_uint_eq(s.npackets, 1);
    ck_assert_int_eq(s.packets[0].kind, SDMA_FENCE);
    scene_end(&s);
}
END_TEST

/* For a trace: the time of the beginning, and the time at which the copies have landed. */
START_TEST(stamps)
{
    const uint64_t at = 0x10000;
    scene_t s;

    scene_begin(&s, gen_of(0x74a1), 65536);
    s.to.stamps = at;
    add(&s, DMA_OP_WAIT, 0)->flag = (dma_flag_ref_t){.kind = DMA_FLAG_ENTRY, .rank = 2};
    add_copy(&s, 1, 3, 5, 1000);
    add_copy(&s, 1, 3000, 5, 1000);
    add(&s, DMA_OP_SIGNAL, 0);
    lower(&s);
    ck_assert_uint_eq(s.npackets, 6);
    ck_assert_int_eq(s.packets[0].kind, SDMA_TIMESTAMP);
    ck_assert_uint_eq(s.packets[0].addr, at);
    ck_assert_int_eq(s.packets[1].kind, SDMA_COPY);
    ck_assert_int_eq(s.packets[2].kind, SDMA_COPY);
    ck_assert_int_eq(s.packets[3].kind, SDMA_FENCE); /* a timestamp does not wait for copies */
    ck_assert_uint_ne(s.packets[3].addr, LINE);
    ck_assert_int_eq(s.packets[4].kind, SDMA_TIMESTAMP);
    ck_assert_uint_eq(s.packets[4].addr, at + 32);
    ck_assert_int_eq(s.packets[5].kind, SDMA_FENCE);
    ck_assert_uint_eq(s.packets[5].addr, LINE);
    scene_end(&s);
}
END_TEST

/* ---- what the packets do ---- */

#define PLACE_BYTES 100000
#define RING        4096

/* Limits that make many packets of little. */
static dma_gen_t small_gen(const dma_gen_t *gen)
{
    dma_gen_t small = *gen;

    small.max_copy = 256;
    small.max_swap = gen->max_swap ? 192 : 0;
    return small;
}

static uint64_t rng;

static uint64_t draw(uint64_t below)
{
    rng = rng * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (rng >> 33) % below;
}

/* Disjoint places of an operation in the receive buffers; the model of what it does. */
static void random_op(scene_t *s, char *model[3], const char *send, uint64_t *used)
{
    uint64_t bytes = draw(3) ? draw(3000) : draw(3) * 64 * 20, skew = draw(2) ? 0 : draw(64);
    uint64_t place = *used + skew;

    *used += 3200;
    switch (draw(3)) {
    case 0:
        add_copy(s, 1, place, draw(3000), bytes);
        memcpy(model[1] + place, send + s->ops[s->prog.nops - 1].src.offset, bytes);
        break;
    case 1:
        add_copy2(s, place, *used - 3200, draw(3000), bytes);
        memcpy(model[1] + place, send + s->ops[s->prog.nops - 1].src.offset, bytes);
        memcpy(model[2] + *used - 3200, send + s->ops[s->prog.nops - 1].src.offset, bytes);
        break;
    default:
        add_swap(s, place, *used - 3200, bytes);
        for (uint64_t i = 0; i < bytes; i++) {
            char c = model[1][place + i];

            model[1][place + i] = model[0][*used - 3200 + i];
            model[0][*used - 3200 + i] = c;
        }
    }
}

/* Random programs in a ring that holds a part of them: what does not fit goes in when there is room, wherever that is. */
START_TEST(executed)
{
    static const struct {
        emu_sdma_gen_t gen;
        uint32_t device_id;
        unsigned early_polls;
    } kinds[] = {{EMU_SDMA_GFX942, 0x74a1, 0}, {EMU_SDMA_GFX90A, 0x7408, 0}, {EMU_SDMA_GFX900, 0x738c, 4}};
    fake_options_t options = {.running = true,
                              .seed = unit_seed() + (uint64_t)_i,
                              .gen = kinds[_i % 3].gen,
                              .early_polls = kinds[_i % 3].early_polls};
    dma_gen_t gen = small_gen(gen_of(kinds[_i % 3].device_id));
    dma_shaped_t shaped = {0};
    dma_queues_t queues;
    dma_provider_queue_t made = {0};
    dma_ring_memory_t memory;
    char *send = aligned_alloc(4096, 3 * 4096), *recv[3], *model[3];
    uint32_t *words = aligned_alloc(4096, 4096);
    uint64_t used = 0;
    const dma_map_pick_t host = {.kind = DMA_MAP_HOST};
    char why[DMA_PROVIDER_WHY_BYTES];
    const char *reason;
    dma_lower_t from = {0};
    unsigned again = 0;
    scene_t s;

    rng = options.seed;
    fake_begin(&options);
    ck_assert_int_eq(dma_queues_open(&queues, fake_providers, "auto", &fake_gpu, &host, why), DMA_OK);
    scene_begin(&s, &gen, 4096);
    scene_end(&s);
    ck_assert_int_eq(queues.provider->ops->create(queues.provider, DMA_MAP_HOST, 0, RING, &made, &reason), DMA_OK);
    memory = (dma_ring_memory_t){.ring = made.ring,
                                 .bytes = RING,
                                 .read_ptr = made.read_ptr,
                                 .write_ptr = made.write_ptr,
                                 .doorbell = made.doorbell};
    ck_assert_int_eq(dma_ring_init(&s.queue.ring, &memory), DMA_OK);
    memset(words, 0, 4096);
    s.queue.step_addr = (uint64_t)(uintptr_t)words;
    s.queue.step_word = (_Atomic uint32_t *)words;
    shaped.temp = (uint64_t)(uintptr_t)(words + 256);
    s.to.shaped = &shaped;
    s.to.line = (uint64_t)(uintptr_t)(words + 16);
    s.queue.temp = (uint64_t)(uintptr_t)(words + 512);
    fake_show(words, 4096);
    fake_show(send, 3 * 4096);
    for (uint64_t i = 0; i < 3 * 4096; i++) {
        send[i] = (char)draw(256);
    }
    s.run.send.addr = send;
    for (int r = 0; r < 3; r++) {
        recv[r] = aligned_alloc(4096, 25 * 4096);
        model[r] = malloc(PLACE_BYTES);
        for (int i = 0; i < PLACE_BYTES; i++) {
            recv[r][i] = (char)draw(256);
        }
        memcpy(model[r], recv[r], PLACE_BYTES);
        s.targets[r].addr = (uint64_t)(uintptr_t)recv[r];
        fake_show(recv[r], 25 * 4096);
    }
    for (int i = 0; i < 30; i++) {
        random_op(&s, model, send, &used);
    }
    add(&s, DMA_OP_SIGNAL, 0);

    fake_hold(true); /* so that the ring is full at least once */
    while (dma_lower_program(&s.run, &s.prog, &s.to, &from) == DMA_AGAIN) {
        dma_ring_publish(&s.queue.ring);
        fake_hold(false);
        again++;
        usleep((unsigned)draw(100));
    }
    dma_ring_publish(&s.queue.ring);
    fake_hold(false);
    ck_assert(fake_quiet());
    ck_assert_msg(fake_broken() == 0, "%s", fake_broken_text());
    ck_assert_uint_eq(words[16], EPOCH);
    for (int r = 0; r < 3; r++) {
        for (int i = 0; i < PLACE_BYTES; i++) {
            ck_assert_msg(recv[r][i] == model[r][i], "rank %d: byte %d", r, i);
        }
        free(recv[r]);
        free(model[r]);
    }
    ck_assert_uint_gt(again, 0);
    queues.provider->ops->destroy(queues.provider, &made);
    dma_queues_close(&queues);
    fake_end();
    free(words);
    free(send);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("sdma_lower");

    unit_test(s, copies, 10);
    unit_loop(s, long_copies, 0, 2, 10);
    unit_test(s, parts_and_displacements, 10);
    unit_test(s, two_places, 10);
    unit_test(s, exchanges, 10);
    unit_loop(s, long_exchanges, 0, 2, 10);
    unit_test(s, waits, 10);
    unit_test(s, stamps, 10);
    unit_test(s, exchanges_without_polls, 10);
    unit_loop(s, executed, 0, 12, 40);
    return unit_main(s);
}
