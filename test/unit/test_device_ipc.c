/* What a process has exported, opened and shown to its devices: numbers that are never used again, and counts that hold. */
#include <stdlib.h>
#include <string.h>

#include "gpu/ipc.h"
#include "gpu/tied.h"
#include "libgpu_fake.h"
#include "libunit.h"

#define MANY 1030 /* more allocations than a process remembers */

/* ---- memory that runs out ---- */

static bool no_memory;

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);

void *__wrap_malloc(size_t bytes)
{
    return no_memory ? NULL : __real_malloc(bytes);
}

/* ---- a process ---- */

static dma_gpu_runtime_t *rt;
static dma_ipc_t *share;
static bool anonymous; /* the runtime does not tell allocations apart */

static void begin(void)
{
    fake_gpu_options_t options = {.devices = 2, .seed = unit_seed()};

    rt = fake_gpu_start(&options);
    share = dma_ipc_create(rt, NULL);
    no_memory = anonymous = false;
}

static void end(void)
{
    dma_ipc_destroy(share);
    fake_gpu_stop();
}

static uint64_t number_of(const void *addr, dma_export_t *export)
{
    dma_gpu_memory_t m;

    dma_gpu_classify(rt, (uint64_t)(uintptr_t)addr, 16, &m);
    ck_assert(m.exportable);
    if (anonymous) {
        m.buffer_id = 0;
    }
    ck_assert_int_eq(dma_ipc_export(share, &m, export), DMA_OK);
    ck_assert_uint_eq(export->base, (uint64_t)(uintptr_t)addr);
    return export->number;
}

static char *device_memory(size_t bytes)
{
    return fake_gpu_alloc(DMA_GPU_DEVICE_PLAIN, 0, bytes);
}

/* ---- blocks that exports tie up ---- */

#define SMALL (DMA_TIED_BLOCK_BYTES - 4096)

static uint64_t returned; /* the driver has this address no more */
static unsigned questions;

static bool holds(uint64_t addr)
{
    questions++;
    return addr != returned;
}

/* An export of each of `n` small allocations, in as many blocks. */
static void tie(uint64_t n, dma_tied_t *tied)
{
    for (uint64_t i = 0; i < n; i++) {
        ck_assert(dma_tied_has_room(tied, rt, i * DMA_TIED_BLOCK_BYTES));
        dma_tied_add(tied, i * DMA_TIED_BLOCK_BYTES);
        dma_tied_add(tied, i * DMA_TIED_BLOCK_BYTES + 4096);
    }
}

START_TEST(blocks_are_bounded)
{
    const uint64_t next = DMA_TIED_MOST * DMA_TIED_BLOCK_BYTES;
    dma_tied_t tied = {.n = 0};

    begin();
    rt->holds = holds;
    returned = UINT64_MAX;
    questions = 0;
    tie(DMA_TIED_MOST, &tied);
    ck_assert_uint_eq(questions, 0);
    for (int i = 0; i < 64; i++) {
        ck_assert(!dma_tied_has_room(&tied, rt, next));
        ck_assert(dma_tied_has_room(&tied, rt, 5 * DMA_TIED_BLOCK_BYTES + 8192)); /* costs nothing more */
    }
    ck_assert_uint_eq(questions, DMA_TIED_MOST); /* not in every call */
    returned = 7 * DMA_TIED_BLOCK_BYTES;
    ck_assert(dma_tied_has_room(&tied, rt, next));
    dma_tied_add(&tied, next);
    ck_assert(!dma_tied_has_room(&tied, rt, returned));
    ck_assert(dma_tied_has_room(&tied, rt, next));
    end();
}
END_TEST

/* Small memory counts when it is exported, other memory never. Loop variable: the runtime has the fault. */
START_TEST(exports_count)
{
    static char *memory[2 * DMA_TIED_MOST];
    unsigned refused = 0;
    dma_gpu_memory_t m;
    dma_export_t e;
    char *large;

    begin();
    rt->holds = _i ? holds : NULL;
    returned = UINT64_MAX;
    for (int i = 0; i < 2 * DMA_TIED_MOST; i++) {
        memory[i] = device_memory(SMALL);
        dma_gpu_classify(rt, (uint64_t)(uintptr_t)memory[i], 16, &m);
        if (dma_ipc_may_export(share, &m)) {
            ck_assert(dma_ipc_may_export(share, &m)); /* a question alone takes nothing */
            number_of(memory[i], &e);
        } else {
            refused++;
        }
    }
    ck_assert_uint_le(refused, DMA_TIED_MOST);
    ck_assert_uint_ge(refused, _i ? DMA_TIED_MOST / 2 : 0);
    ck_assert(_i || !refused);
    large = device_memory(DMA_TIED_BLOCK_BYTES);
    dma_gpu_classify(rt, (uint64_t)(uintptr_t)large, 16, &m);
    ck_assert(dma_ipc_may_export(share, &m));
    fake_gpu_free(large);
    for (int i = 0; i < 2 * DMA_TIED_MOST; i++) {
        fake_gpu_free(memory[i]);
    }
    end();
}
END_TEST

/* ---- exports ---- */

START_TEST(one_number_for_one_allocation)
{
    char *a, *b;
    uint64_t first, second;
    dma_export_t e;

    begin();
    anonymous = _i;
    a = device_memory(5000);
    b = device_memory(5000);
    first = number_of(a, &e);
    second = number_of(b, &e);
    ck_assert_uint_ne(first, 0);
    ck_assert_uint_ne(first, second);
    for (int k = 0; k < 3; k++) {
        ck_assert_uint_eq(number_of(a, &e), first);
        ck_assert_uint_eq(number_of(b, &e), second);
    }
    /* the runtime is asked again only where it has no other way to tell them apart */
    ck_assert_uint_eq(fake_gpu_calls("ipc_export"), anonymous ? 8 : 2);
    fake_gpu_free_for_next(a);
    ck_assert_ptr_eq(device_memory(5000), a);
    ck_assert_uint_gt(number_of(a, &e), second); /* a new one at the same address */
    fake_gpu_free(a);
    fake_gpu_free(b);
    end();
}
END_TEST

/* One that has made room for others gets another number. */
START_TEST(more_than_is_remembered)
{
    static char *memory[MANY];
    uint64_t first, last = 0;
    dma_export_t e;

    begin();
    for (int i = 0; i < MANY; i++) {
        memory[i] = device_memory(16);
        last = number_of(memory[i], &e);
    }
    ck_assert_uint_eq(last, MANY);
    ck_assert_uint_eq(e.first, 0); /* what is left is not known any more */
    ck_assert_uint_eq(number_of(memory[MANY - 1], &e), last);
    first = number_of(memory[0], &e);
    ck_assert_uint_gt(first, last);
    ck_assert_uint_eq(number_of(memory[0], &e), first);
    for (int i = 0; i < MANY; i++) {
        fake_gpu_free(memory[i]);
    }
    end();
}
END_TEST

START_TEST(export_that_fails)
{
    dma_gpu_memory_t m;
    dma_status_t status;
    dma_export_t e;
    char *a;

    begin();
    a = device_memory(100);
    dma_gpu_classify(rt, (uint64_t)(uintptr_t)a, 16, &m);
    fake_gpu_fail("ipc_export", 0, DMA_UNSUPPORTED);
    ck_assert_int_eq(dma_ipc_export(share, &m, &e), DMA_UNSUPPORTED);
    no_memory = true; /* nor for the check of what comes out */
    status = dma_ipc_export(share, &m, &e);
    no_memory = false;
    ck_assert_int_eq(status, DMA_ERR_NOMEM);
    ck_assert_uint_eq(number_of(a, &e), 1);
    fake_gpu_free(a);
    end();
}
END_TEST

/* ---- imports ---- */

START_TEST(opened_once_for_each_device)
{
    dma_import_t *i[4];
    dma_export_t e;
    char *a;

    begin();
    a = device_memory(3000);
    strcpy(a + 7, "here");
    number_of(a, &e);
    ck_assert_int_eq(dma_ipc_open(share, 0, 1, &e, &i[0]), DMA_OK);
    ck_assert_int_eq(dma_ipc_open(share, 0, 1, &e, &i[1]), DMA_OK);
    ck_assert_int_eq(dma_ipc_open(share, 1, 1, &e, &i[2]), DMA_OK);
    ck_assert_int_eq(dma_ipc_open(share, 0, 2, &e, &i[3]), DMA_OK); /* another process's number is another allocation */
    ck_assert_uint_eq(fake_gpu_calls("ipc_open"), 3);
    ck_assert_ptr_eq(i[0], i[1]);
    ck_assert_str_eq((char *)(uintptr_t)dma_import_base(i[2]) + 7, "here");
    dma_ipc_close(share, i[0]);
    ck_assert_uint_eq(fake_gpu_calls("ipc_close"), 0);
    dma_ipc_close(share, i[1]);
    ck_assert_uint_eq(fake_gpu_calls("ipc_close"), 1);
    dma_ipc_close(share, i[2]);
    dma_ipc_close(share, i[3]);
    fake_gpu_free(a);
    end();
}
END_TEST

/* Other memory of the process there: the old is closed, whoever has it, and they may let go of it after that. */
START_TEST(what_overlaps_has_been_freed)
{
    dma_import_t *old[3], *beside, *fresh, *once_more;
    dma_export_t was, other, is;
    char *a, *b;

    begin();
    a = device_memory(9000);
    b = device_memory(9000);
    number_of(a, &was);
    number_of(b, &other);
    ck_assert_int_eq(dma_ipc_open(share, 0, 1, &was, &old[0]), DMA_OK);
    ck_assert_int_eq(dma_ipc_open(share, 0, 1, &was, &old[1]), DMA_OK);
    ck_assert_int_eq(dma_ipc_open(share, 1, 1, &was, &old[2]), DMA_OK);
    ck_assert_int_eq(dma_ipc_open(share, 0, 1, &other, &beside), DMA_OK);
    ck_assert(!dma_ipc_is_freed(share, was.number));
    fake_gpu_free_for_next(a);
    ck_assert(dma_ipc_is_freed(share, was.number));
    ck_assert_ptr_eq(device_memory(_i ? 9000 : 700), a);
    ck_assert(dma_ipc_is_freed(share, was.number));
    ck_assert_uint_eq(fake_gpu_kept(), 2 * 9000);
    number_of(a, &is);
    ck_assert(dma_ipc_is_freed(share, was.number));
    ck_assert(!dma_ipc_is_freed(share, is.number));
    is.first = 0; /* of neighbours nothing is said */
    ck_assert_int_eq(dma_ipc_open(share, 0, 1, &is, &fresh), DMA_OK);
    ck_assert_uint_eq(fake_gpu_calls("ipc_close"), 1); /* not that of another device, nor what is beside it */
    ck_assert_uint_eq(fake_gpu_kept(), 9000);
    /* the same memory, under another number: its owner has forgotten the first */
    is.number += 100;
    ck_assert_int_eq(dma_ipc_open(share, 0, 1, &is, &once_more), DMA_OK);
    ck_assert_ptr_eq(once_more, fresh);
    dma_ipc_close(share, old[0]);
    dma_ipc_close(share, old[1]);
    ck_assert_uint_eq(fake_gpu_calls("ipc_close"), 1);
    dma_ipc_close(share, old[2]);
    dma_ipc_close(share, fresh);
    dma_ipc_close(share, once_more);
    dma_ipc_close(share, beside);
    ck_assert_uint_eq(fake_gpu_calls("ipc_close"), 4);
    fake_gpu_free(a);
    fake_gpu_free(b);
    end();
}
END_TEST

/* What lies beside it in its block, too, up to where something is left. Loop variable: is it all gone? */
START_TEST(what_was_in_the_same_block)
{
    const uint64_t block = UINT64_C(6) << 20;
    dma_import_t *open[4];
    dma_export_t e[4];
    char *memory[4];

    begin();
    for (int k = 0; k < 4; k++) {
        memory[k] = device_memory(4096);
        number_of(memory[k], &e[k]);
        e[k].first = 0;
    }
    /* where their owner says they are: two in the new one's block, one behind it */
    e[0].base = block;
    e[1].base = block + 8192;
    e[2].base = block + (2 << 20);
    e[3].base = block + (2 << 20) - 4096;
    e[3].first = e[_i].number + 1;
    for (int k = 0; k < 4; k++) {
        ck_assert_uint_eq(fake_gpu_calls("ipc_close"), 0);
        ck_assert_int_eq(dma_ipc_open(share, 0, 1, &e[k], &open[k]), DMA_OK);
    }
    ck_assert_uint_eq(fake_gpu_calls("ipc_close"), 1 + (unsigned)_i);
    for (int k = 0; k < 4; k++) {
        dma_ipc_close(share, open[k]);
        fake_gpu_free(memory[k]);
    }
    ck_assert_uint_eq(fake_gpu_calls("ipc_close"), 4);
    end();
}
END_TEST

/* Which the owner finds out when it exports. */
START_TEST(what_is_left_in_the_block)
{
    enum { TRIES = 64, BLOCK = 2 << 20 };
    char *memory[TRIES], *other = NULL, *place;
    dma_export_t left, e;
    int n = 0;

    begin();
    while (n < TRIES && !other) { /* two in one block */
        memory[n] = device_memory(4096);
        for (int k = 0; k < n && !other; k++) {
            other = (uintptr_t)memory[k] / BLOCK == (uintptr_t)memory[n] / BLOCK ? memory[k] : NULL;
        }
        n++;
    }
    ck_assert_ptr_nonnull(other);
    place = memory[n - 1];
    number_of(other, &left);
    number_of(place, &e);
    ck_assert_uint_eq(e.first, left.number);
    for (int gone = 0; gone < 2; gone++) {
        if (gone) {
            fake_gpu_free(other);
        }
        fake_gpu_free_for_next(place);
        ck_assert_ptr_eq(device_memory(4096), place);
        number_of(place, &e);
        ck_assert_uint_eq(e.first, gone ? e.number : left.number);
    }
    for (int k = 0; k < n; k++) {
        if (memory[k] != other) {
            fake_gpu_free(memory[k]);
        }
    }
    end();
}
END_TEST

/* The runtime still holds it: that is asked again in later calls, and until then it may be used again. */
START_TEST(held_by_the_runtime)
{
    dma_import_t *one, *other;
    dma_export_t e, f;
    char *a, *b;

    begin();
    a = device_memory(9000);
    b = device_memory(9000);
    number_of(a, &e);
    number_of(b, &f);
    ck_assert_int_eq(dma_ipc_open(share, 0, 1, &e, &one), DMA_OK);
    fake_gpu_fail("ipc_close", 0, DMA_AGAIN);
    dma_ipc_close(share, one);
    fake_gpu_fail("ipc_close", 0, DMA_AGAIN);
    ck_assert_int_eq(dma_ipc_open(share, 0, 1, &e, &one), DMA_OK);
    ck_assert_uint_eq(fake_gpu_calls("ipc_open"), 1);
    ck_assert_uint_eq(fake_gpu_calls("ipc_close"), 2);
    fake_gpu_fail("ipc_close", 0, DMA_AGAIN);
    dma_ipc_close(share, one);
    ck_assert_int_eq(dma_ipc_open(share, 0, 1, &f, &other), DMA_OK);
    ck_assert_uint_eq(fake_gpu_calls("ipc_close"), 4);
    dma_ipc_close(share, other);
    fake_gpu_free(a);
    fake_gpu_free(b);
    end();
}
END_TEST

/* Nothing is opened where something is still held. */
START_TEST(in_the_way)
{
    dma_import_t *old, *fresh = NULL;
    dma_export_t was, is;
    char *a;

    begin();
    a = device_memory(9000);
    number_of(a, &was);
    ck_assert_int_eq(dma_ipc_open(share, 0, 1, &was, &old), DMA_OK);
    fake_gpu_free_for_next(a);
    ck_assert_ptr_eq(device_memory(9000), a);
    number_of(a, &is);
    fake_gpu_fail("ipc_close", 0, DMA_AGAIN);
    ck_assert_int_eq(dma_ipc_open(share, 0, 1, &is, &fresh), DMA_AGAIN);
    if (_i) { /* its users let go of it before the runtime does, or after that */
        fake_gpu_fail("ipc_close", 0, DMA_AGAIN);
        dma_ipc_close(share, old);
    }
    ck_assert_uint_eq(fake_gpu_calls("ipc_open"), 1);
    ck_assert_int_eq(dma_ipc_open(share, 0, 1, &is, &fresh), DMA_OK);
    if (!_i) {
        dma_ipc_close(share, old);
    }
    dma_ipc_close(share, fresh);
    ck_assert_uint_eq(fake_gpu_calls("ipc_close"), _i ? 4 : 3);
    fake_gpu_free(a);
    end();
}
END_TEST

/* Nothing stays open of what has failed: the end looks for it. */
START_TEST(opening_that_fails)
{
    dma_status_t status;
    dma_import_t *i;
    dma_export_t e;
    char *a;

    begin();
    a = device_memory(3000);
    number_of(a, &e);
    fake_gpu_fail("ipc_open", 0, DMA_UNSUPPORTED);
    ck_assert_int_eq(dma_ipc_open(share, 0, 1, &e, &i), DMA_UNSUPPORTED);
    no_memory = true; /* nor for the check of what comes out */
    status = dma_ipc_open(share, 0, 1, &e, &i);
    no_memory = false;
    ck_assert_int_eq(status, DMA_ERR_NOMEM);
    ck_assert_int_eq(dma_ipc_open(share, 0, 1, &e, &i), DMA_OK);
    dma_ipc_close(share, i);
    fake_gpu_free(a);
    end();
}
END_TEST

/* ---- registrations ---- */

START_TEST(shown_as_often_as_hidden)
{
    char *page = malloc(8192);
    dma_status_t status;
    uint64_t at;

    begin();
    ck_assert_int_eq(dma_ipc_register(share, 0, page, 4096, &at), DMA_OK);
    ck_assert_int_eq(dma_ipc_register(share, 0, page, 4096, &at), DMA_OK);
    ck_assert_int_eq(dma_ipc_register(share, 0, page, 8192, &at), DMA_OK); /* more than is shown */
    ck_assert_int_eq(dma_ipc_register(share, 0, page, 8192, &at), DMA_OK);
    ck_assert_int_eq(dma_ipc_register(share, 1, page, 100, &at), DMA_OK);
    ck_assert_uint_eq(fake_gpu_calls("host_register"), 2); /* one serves all devices */
    dma_ipc_unregister(share, page);
    dma_ipc_unregister(share, page);
    ck_assert_uint_eq(fake_gpu_calls("host_unregister"), 0);
    dma_ipc_unregister(share, page);
    ck_assert_uint_eq(fake_gpu_calls("host_unregister"), 1);
    dma_ipc_unregister(share, page);
    ck_assert_uint_eq(fake_gpu_calls("host_unregister"), 1); /* one user is left of the other */
    dma_ipc_unregister(share, page);
    ck_assert_uint_eq(fake_gpu_calls("host_unregister"), 2);
    no_memory = true; /* nor for the check of what comes out */
    status = dma_ipc_register(share, 0, page, 4096, &at);
    no_memory = false;
    ck_assert_int_eq(status, DMA_ERR_NOMEM);
    fake_gpu_fail("host_register", 0, DMA_UNSUPPORTED);
    ck_assert_int_eq(dma_ipc_register(share, 0, page, 4096, &at), DMA_UNSUPPORTED);
    end();
    free(page);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("device_share");

    unit_loop(s, one_number_for_one_allocation, 0, 2, 10);
    unit_test(s, blocks_are_bounded, 10);
    unit_loop(s, exports_count, 0, 2, 10);
    unit_test(s, more_than_is_remembered, 20);
    unit_test(s, export_that_fails, 10);
    unit_test(s, opened_once_for_each_device, 10);
    unit_loop(s, what_overlaps_has_been_freed, 0, 2, 10);
    unit_loop(s, what_was_in_the_same_block, 0, 2, 10);
    unit_test(s, what_is_left_in_the_block, 10);
    unit_test(s, held_by_the_runtime, 10);
    unit_loop(s, in_the_way, 0, 2, 10);
    unit_test(s, opening_that_fails, 10);
    unit_test(s, shown_as_often_as_hidden, 10);
    return unit_main(s);
}
