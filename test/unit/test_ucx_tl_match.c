/* The tables of ucx_tl against a plain list: order, equality of every part of the tag, sequence numbers that wrap. */
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

/* Few values of each part, so that many are equal; sequence numbers on both sides of their wrap. */
static dma_net_head_t some_head(void)
{
    return (dma_net_head_t){
        .tag = {.comm = some(2), .owner = some(2), .seq = 0xfffffffeu + some(4), .step = some(2), .note = some(99)},
        .key = some(2) ? 7 : 7ull << 32,
    };
}

static bool equal(const dma_net_head_t *a, const dma_net_head_t *b)
{
    return a->key == b->key && !memcmp(&a->tag, &b->tag, offsetof(dma_net_tag_t, note));
}

START_TEST(takes_the_oldest_equal)
{
    dma_net_table_t table = {0};
    dma_net_entry_t *entries = calloc(ENTRIES, sizeof(*entries)), *list[ENTRIES];
    unsigned added = 0, held = 0, found = 0;

    state = unit_seed() + (uint64_t)_i;
    for (unsigned i = 0; i < 4 * ENTRIES; i++) {
        dma_net_head_t head = some_head();
        unsigned k = 0;

        if (added < ENTRIES && some(2)) {
            entries[added].head = head;
            list[held++] = &entries[added];
            dma_net_table_add(&table, &entries[added++]);
            continue;
        }
        while (k < held && !equal(&list[k]->head, &head)) {
            k++;
        }
        if (k == held) {
            ck_assert_ptr_null(dma_net_table_take(&table, &head));
            continue;
        }
        if (some(4)) {
            ck_assert_ptr_eq(dma_net_table_take(&table, &head), list[k]);
        } else {
            ck_assert(dma_net_table_remove(&table, list[k]));
            ck_assert(!dma_net_table_remove(&table, list[k]));
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
    dma_net_head_t a = {.tag = {.comm = 3, .owner = 4, .seq = 0xffffffff, .step = 6, .note = 7}, .key = 8}, b = a;
    dma_net_table_t table = {0};
    dma_net_entry_t entry = {.head = a};

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
    } while (dma_net_hash(&b) % DMA_NET_FEW != dma_net_hash(&a) % DMA_NET_FEW);
    dma_net_table_add(&table, &entry);
    ck_assert_ptr_null(dma_net_table_take(&table, &b));
    a.tag.note++;
    ck_assert_ptr_eq(dma_net_table_take(&table, &a), &entry);
}
END_TEST

START_TEST(spreads_over_buckets)
{
    unsigned used = 0;
    bool hit[DMA_NET_FEW] = {false};

    /* What a communicator really uses: a few sources, consecutive calls and steps. */
    for (uint32_t i = 0; i < 8 * 8 * 16; i++) {
        dma_net_head_t head = {.tag = {.comm = 5, .owner = i % 8, .seq = i / 8 % 8, .step = i / 64}, .key = i % 8};

        used += !hit[dma_net_hash(&head) % DMA_NET_FEW];
        hit[dma_net_hash(&head) % DMA_NET_FEW] = true;
    }
    ck_assert_uint_gt(used, DMA_NET_FEW * 9 / 10);
}
END_TEST

/* As many as peers of a large machine, each with two messages: chains stay short, and equal tags in order. */
START_TEST(grows_with_what_it_holds)
{
    enum { KEYS = 40000 };
    dma_net_table_t table = {0};
    dma_net_entry_t *entries = calloc(2 * KEYS, sizeof(*entries));
    uint32_t longest = 0;

    for (int i = 0; i < 2 * KEYS; i++) {
        entries[i].head.key = (uint64_t)(i % KEYS) << 32;
        dma_net_table_add(&table, &entries[i]);
    }
    ck_assert_uint_eq(table.held, 2 * KEYS);
    for (uint32_t i = 0; i < table.chains; i++) {
        uint32_t n = 0;

        for (const dma_net_entry_t *e = table.many[i]; e; e = e->next) {
            n++;
        }
        longest = n > longest ? n : longest;
    }
    ck_assert_uint_le(longest, 24);
    for (int i = 0; i < 2 * KEYS; i++) {
        ck_assert_ptr_eq(dma_net_table_get(&table, &entries[i].head), &entries[i]);
        ck_assert_ptr_eq(dma_net_table_take(&table, &entries[i].head), &entries[i]);
    }
    ck_assert_uint_eq(table.held, 0);
    dma_net_table_free(&table);
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
