/* The tables of ucx_tl against a plain list: order, comparison of every part of the tag, sequence numbers that wrap. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "libunit.h"

#define ENTRIES 400

static uint64_t state;

static uint32_t some(uint32_t below)
{
    state += 0x9e3779b97f4a7c15ull;
    return (uint32_t)((((state ^ (state >> 31)) * 0xbf58476d1ce4e5b9ull) >> 33) % below);
}

/* Few values of each part, so that many tags are equal. Sequence numbers are on both sides of the wrap. */
static dma_ucx_header_t some_head(void)
{
    return (dma_ucx_header_t){
        .tag = {.comm = some(2), .owner = some(2), .seq = 0xfffffffeu + some(4), .step = some(2), .note = some(99)},
        .key = some(2) ? 7 : 7ull << 32,
    };
}

static bool equal(const dma_ucx_header_t *a, const dma_ucx_header_t *b)
{
    return a->key == b->key && !memcmp(&a->tag, &b->tag, offsetof(dma_net_tag_t, note));
}

START_TEST(takes_the_oldest_equal)
{
    dma_ucx_table_t table = {0};
    dma_ucx_entry_t *entries = calloc(ENTRIES, sizeof(*entries)), *list[ENTRIES];
    unsigned added = 0, held = 0, found = 0;

    state = unit_seed() + (uint64_t)_i;
    for (unsigned i = 0; i < 4 * ENTRIES; i++) {
        dma_ucx_header_t header = some_head();
        unsigned k = 0;

        if (added < ENTRIES && some(2)) {
            entries[added].header = header;
            list[held++] = &entries[added];
            dma_ucx_table_add(&table, &entries[added++]);
            continue;
        }
        while (k < held && !equal(&list[k]->header, &header)) {
            k++;
        }
        if (k == held) {
            ck_assert_ptr_null(dma_ucx_table_pop(&table, &header));
            continue;
        }
        if (some(4)) {
            ck_assert_ptr_eq(dma_ucx_table_pop(&table, &header), list[k]);
        } else {
            ck_assert(dma_ucx_table_remove(&table, list[k]));
            ck_assert(!dma_ucx_table_remove(&table, list[k]));
        }
        memmove(&list[k], &list[k + 1], (--held - k) * sizeof(list[0]));
        found++;
    }
    ck_assert_uint_gt(found, 100);
    free(entries);
}
END_TEST

/* Two that differ in one part only and share a bucket. */
START_TEST(every_part_counts)
{
    dma_ucx_header_t a = {.tag = {.comm = 3, .owner = 4, .seq = 0xffffffff, .step = 6, .note = 7}, .key = 8}, b = a;
    dma_ucx_table_t table = {0};
    dma_ucx_entry_t entry = {.header = a};

    do {
        switch (_i) {
        case 0:
            b.tag.comm++;
            break;
        case 1:
            b.tag.owner++;
            break;
        case 2:
            b.tag.seq++; /* the first is 0 */
            break;
        case 3:
            b.tag.step++;
            break;
        default:
            b.key += 1ull << 32;
        }
    } while (dma_ucx_hash(&b) % DMA_UCX_INLINE_CHAINS != dma_ucx_hash(&a) % DMA_UCX_INLINE_CHAINS);
    dma_ucx_table_add(&table, &entry);
    ck_assert_ptr_null(dma_ucx_table_pop(&table, &b));
    a.tag.note++;
    ck_assert_ptr_eq(dma_ucx_table_pop(&table, &a), &entry);
}
END_TEST

START_TEST(spreads_over_buckets)
{
    unsigned used = 0;
    bool hit[DMA_UCX_INLINE_CHAINS] = {false};

    /* The tags of a real communicator: a few sources, consecutive calls and steps. */
    for (uint32_t i = 0; i < 8 * 8 * 16; i++) {
        dma_ucx_header_t header = {.tag = {.comm = 5, .owner = i % 8, .seq = i / 8 % 8, .step = i / 64}, .key = i % 8};

        used += !hit[dma_ucx_hash(&header) % DMA_UCX_INLINE_CHAINS];
        hit[dma_ucx_hash(&header) % DMA_UCX_INLINE_CHAINS] = true;
    }
    ck_assert_uint_gt(used, DMA_UCX_INLINE_CHAINS * 9 / 10);
}
END_TEST

/* As many peers as on a large machine, each with two messages: chains stay short, and equal tags stay in order. */
START_TEST(grows_with_what_it_holds)
{
    enum { KEYS = 40000 };
    dma_ucx_table_t table = {0};
    dma_ucx_entry_t *entries = calloc(2 * KEYS, sizeof(*entries));
    uint32_t longest = 0;

    for (int i = 0; i < 2 * KEYS; i++) {
        entries[i].header.key = (uint64_t)(i % KEYS) << 32;
        dma_ucx_table_add(&table, &entries[i]);
    }
    ck_assert_uint_eq(table.count, 2 * KEYS);
    for (uint32_t i = 0; i < table.nchains; i++) {
        uint32_t n = 0;

        for (const dma_ucx_entry_t *e = table.array[i]; e; e = e->next) {
            n++;
        }
        longest = n > longest ? n : longest;
    }
    ck_assert_uint_le(longest, 24);
    for (int i = 0; i < 2 * KEYS; i++) {
        ck_assert_ptr_eq(dma_ucx_table_find(&table, &entries[i].header), &entries[i]);
        ck_assert_ptr_eq(dma_ucx_table_pop(&table, &entries[i].header), &entries[i]);
    }
    ck_assert_uint_eq(table.count, 0);
    dma_ucx_table_free(&table);
    free(entries);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ucx_tl_match");

    unit_loop(suite, takes_the_oldest_equal, 0, 20, 4);
    unit_loop(suite, every_part_counts, 0, 5, 4);
    unit_test(suite, spreads_over_buckets, 4);
    unit_test(suite, grows_with_what_it_holds, 10);
    return unit_main(suite);
}
