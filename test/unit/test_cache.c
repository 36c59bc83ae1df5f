/*
 * Memory that is kept for calls (gpu/cache.h): which idle block gives way to a larger one, and that nothing else gives
 * way. The blocks are numbers, so that a test sees which of them exist.
 */
#include <stdlib.h>

#include "gpu/cache.h"
#include "gpu/runtime.h"
#include "libgpu_fake.h"
#include "libunit.h"

enum { BLOCKS = 5, BYTES = 100 };

static dma_counters_t counters = DMA_COUNTERS_INIT;
static dma_budget_t budget;
static dma_cache_t cache;
static dma_gpu_runtime_t *rt;
static unsigned released;
static bool held; /* a stream waits: blocks cannot be released */

static dma_status_t made = DMA_OK; /* what the creation of a block returns */

static dma_status_t make(dma_cached_t *block)
{
    (void)block;
    return made;
}

static bool release(dma_cached_t *block)
{
    (void)block;
    released += !held;
    return !held;
}

/* A budget of this number of bytes. */
static void begin(uint64_t bytes)
{
    static const dma_cache_kind_t kind = {
        .budget = DMA_BUDGET_DEVICE, .size = sizeof(dma_cached_t), .make = make, .release = release};

    rt = fake_gpu_start(&(fake_gpu_options_t){.devices = 2, .seed = unit_seed()});
    dma_budget_init(&budget, &counters, bytes, 0);
    cache = (dma_cache_t){0};
    dma_cache_of(&cache, &kind, &budget);
    released = 0;
    held = false;
}

static void end(void)
{
    for (dma_cached_t *b = cache.blocks; b; b = b->next) {
        b->busy = false;
    }
    dma_cache_destroy(&cache);
    ck_assert_ptr_null(cache.blocks);
    ck_assert_uint_eq(dma_budget_left(&budget, DMA_BUDGET_DEVICE), budget.limit[DMA_BUDGET_DEVICE]);
    fake_gpu_stop();
}

static dma_cached_t *block_of(int device, uint64_t bytes)
{
    dma_cached_t *block;

    ck_assert_int_eq(dma_cache_make(&cache, rt, device, bytes, &block), DMA_OK);
    return block;
}

/* Borrows a block, and gives it back. */
static void use(dma_cached_t *block)
{
    dma_cache_borrow(&cache, block);
    ck_assert(block->busy);
    block->busy = false;
}

static bool is_there(const dma_cached_t *block)
{
    const dma_cached_t *b = cache.blocks;

    while (b && b != block) {
        b = b->next;
    }
    return b;
}

/* Idle blocks of another device are freed in the order in which they were last used, whatever the order of their
 * creation. */
START_TEST(least_recently_used_goes_first)
{
    static const int orders[][BLOCKS] = {{0, 1, 2, 3, 4}, {4, 3, 2, 1, 0}, {2, 0, 4, 1, 3}, {1, 4, 0, 3, 2}};
    const int *order = orders[_i];
    dma_cached_t *blocks[BLOCKS];

    begin(BLOCKS * BYTES);
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = block_of(1, BYTES);
    }
    for (int i = 0; i < BLOCKS; i++) { /* an earlier use does not count */
        use(blocks[i]);
        use(blocks[BLOCKS - 1 - i]);
    }
    for (int i = 0; i < BLOCKS; i++) {
        use(blocks[order[i]]);
    }
    for (int gone = 1; gone < BLOCKS; gone++) {
        dma_cache_make_room(&cache, rt, 0, (uint64_t)gone * BYTES);
        ck_assert_uint_eq(released, (unsigned)gone);
        for (int i = 0; i < BLOCKS; i++) {
            ck_assert_msg(is_there(blocks[order[i]]) == (i >= gone), "of %d that went, number %d", gone, i);
        }
    }
    end();
}
END_TEST

/* No more blocks are freed than necessary. Idle blocks of the same device are freed first, however new. Blocks in
 * use stay. */
START_TEST(only_what_is_needed_goes)
{
    dma_cached_t *old, *busy, *own;

    begin(4 * BYTES);
    old = block_of(1, BYTES);
    busy = block_of(1, BYTES);
    own = block_of(0, BYTES);
    use(old);
    dma_cache_borrow(&cache, busy);
    use(own);
    dma_cache_make_room(&cache, rt, 0, 2 * BYTES);
    ck_assert(is_there(old) && is_there(busy) && !is_there(own));
    dma_cache_make_room(&cache, rt, 0, 2 * BYTES); /* there is room */
    ck_assert(is_there(old) && is_there(busy));
    dma_cache_make_room(&cache, rt, 0, 4 * BYTES); /* more than the budget */
    ck_assert(!is_there(old) && is_there(busy));
    ck_assert_uint_eq(dma_cache_allowance(&cache), 3 * BYTES);
    end();
}
END_TEST

/* A block that cannot be released stays as it was, and its bytes with it. */
START_TEST(while_a_stream_waits)
{
    dma_cached_t *one, *other;

    begin(2 * BYTES);
    one = block_of(0, BYTES);
    other = block_of(1, BYTES);
    held = true;
    dma_cache_make_room(&cache, rt, 0, 2 * BYTES);
    dma_cache_trim(&cache, rt, 1);
    ck_assert(!dma_cache_free(&cache, one));
    ck_assert(is_there(one) && is_there(other));
    ck_assert_uint_eq(dma_budget_left(&budget, DMA_BUDGET_DEVICE), 0);
    ck_assert_ptr_eq(dma_cache_find(&cache, rt, 0, BYTES), one);
    held = false;
    dma_cache_make_room(&cache, rt, 0, BYTES);
    ck_assert(!is_there(one) && is_there(other));
    ck_assert(dma_cache_free(&cache, other));
    ck_assert_uint_eq(released, 2);
    end();
}
END_TEST

/* Chosen is the smallest idle block of the device that is large enough. */
START_TEST(best_fit)
{
    dma_cached_t *small, *middle, *large, *other, *more;

    begin(1000 * BYTES);
    large = block_of(0, 300);
    small = block_of(0, 100);
    middle = block_of(0, 200);
    other = block_of(1, 150);
    ck_assert_ptr_eq(dma_cache_find(&cache, rt, 0, 100), small);
    ck_assert_ptr_eq(dma_cache_find(&cache, rt, 0, 101), middle);
    ck_assert_ptr_eq(dma_cache_find(&cache, rt, 0, 201), large);
    ck_assert_ptr_null(dma_cache_find(&cache, rt, 0, 301));
    ck_assert_ptr_eq(dma_cache_find(&cache, rt, 1, 100), other);
    dma_cache_borrow(&cache, middle);
    ck_assert_ptr_eq(dma_cache_find(&cache, rt, 0, 101), large);
    ck_assert_uint_eq(dma_cache_allowance(&cache), 1000 * BYTES - 200);
    fake_gpu_reset(0);
    dma_cache_drop_destroyed(&cache, rt, 0);
    ck_assert(!is_there(small) && !is_there(large) && is_there(middle) && is_there(other));
    more = block_of(0, 10);
    dma_cache_drop_destroyed(&cache, rt, 0);
    ck_assert(is_there(more)); /* made after the reset */
    end();
}
END_TEST

/* If a block cannot be made, or the budget has no room for it, nothing changes. */
START_TEST(making_fails)
{
    dma_cached_t *block, *first;

    begin(BYTES);
    made = DMA_ERR_ENGINE;
    ck_assert_int_eq(dma_cache_make(&cache, rt, 0, BYTES, &block), DMA_ERR_ENGINE);
    ck_assert_ptr_null(cache.blocks);
    ck_assert_uint_eq(dma_budget_left(&budget, DMA_BUDGET_DEVICE), BYTES);
    made = DMA_OK;
    first = block_of(0, BYTES);
    ck_assert_int_eq(dma_cache_make(&cache, rt, 0, 1, &block), DMA_ERR_NOMEM);
    ck_assert_ptr_eq(cache.blocks, first);
    end();
}
END_TEST

/* A new block is half as large again, if that leaves as much for others. */
START_TEST(sizes)
{
    ck_assert_uint_eq(dma_cache_size(100, 200), 150);
    ck_assert_uint_eq(dma_cache_size(101, 200), 101);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("cache");

    unit_loop(s, least_recently_used_goes_first, 0, 4, 10);
    unit_test(s, only_what_is_needed_goes, 10);
    unit_test(s, while_a_stream_waits, 10);
    unit_test(s, best_fit, 10);
    unit_test(s, making_fails, 10);
    unit_test(s, sizes, 10);
    return unit_main(s);
}
