/* Receives without a message and messages without a receive: a table of each, by the sender's key and the tag. Peers: by key. */
#include <stdlib.h>

#include "internal.h"

static bool same(const dma_net_head_t *a, const dma_net_head_t *b)
{
    return a->key == b->key && a->tag.comm == b->tag.comm && a->tag.owner == b->tag.owner && a->tag.seq == b->tag.seq &&
           a->tag.step == b->tag.step;
}

uint32_t dma_net_hash(const dma_net_head_t *head)
{
    uint64_t h = head->key;

    h = (h ^ head->tag.comm) * 0x9e3779b97f4a7c15ull;
    h = (h ^ (h >> 29) ^ head->tag.owner) * 0x9e3779b97f4a7c15ull;
    h = (h ^ (h >> 29) ^ ((uint64_t)head->tag.seq << 32 | head->tag.step)) * 0x9e3779b97f4a7c15ull;
    return (uint32_t)(h >> 32);
}

static uint32_t chains_of(const dma_net_table_t *table)
{
    return table->chains ? table->chains : DMA_NET_FEW;
}

static dma_net_entry_t **chain(dma_net_table_t *table, uint32_t n)
{
    return table->many ? &table->many[n] : &table->few[n];
}

static dma_net_entry_t **chain_of(dma_net_table_t *table, const dma_net_head_t *head)
{
    return chain(table, dma_net_hash(head) & (chains_of(table) - 1));
}

/* Twice as many chains: each becomes two, in the order that it has. */
static void grow(dma_net_table_t *table)
{
    uint32_t n = chains_of(table);
    dma_net_entry_t **many = calloc(2 * (size_t)n, sizeof(*many));

    for (uint32_t i = 0; many && i < n; i++) {
        dma_net_entry_t **ends[2] = {&many[i], &many[i + n]};

        for (dma_net_entry_t *entry = *chain(table, i), *next; entry; entry = next) {
            dma_net_entry_t ***end = &ends[(dma_net_hash(&entry->head) & n) != 0];

            next = entry->next;
            entry->next = NULL;
            **end = entry;
            *end = &entry->next;
        }
    }
    if (many) {
        free(table->many);
        table->many = many;
        table->chains = 2 * n;
    }
}

void dma_net_table_add(dma_net_table_t *table, dma_net_entry_t *entry)
{
    dma_net_entry_t **link;

    if (++table->held > 2 * chains_of(table)) {
        grow(table);
    }
    link = chain_of(table, &entry->head);
    /* At the end: equal tags match in order. */
    while (*link) {
        link = &(*link)->next;
    }
    entry->next = NULL;
    *link = entry;
}

static dma_net_entry_t *unlink_entry(dma_net_table_t *table, dma_net_entry_t **link)
{
    dma_net_entry_t *entry = *link;

    *link = entry->next;
    table->held--;
    return entry;
}

dma_net_entry_t *dma_net_table_take(dma_net_table_t *table, const dma_net_head_t *head)
{
    for (dma_net_entry_t **link = chain_of(table, head); *link; link = &(*link)->next) {
        if (same(&(*link)->head, head)) {
            return unlink_entry(table, link);
        }
    }
    return NULL;
}

dma_net_entry_t *dma_net_table_get(dma_net_table_t *table, const dma_net_head_t *head)
{
    dma_net_entry_t *entry = *chain_of(table, head);

    while (entry && !same(&entry->head, head)) {
        entry = entry->next;
    }
    return entry;
}

bool dma_net_table_remove(dma_net_table_t *table, const dma_net_entry_t *entry)
{
    for (dma_net_entry_t **link = chain_of(table, &entry->head); *link; link = &(*link)->next) {
        if (*link == entry) {
            unlink_entry(table, link);
            return true;
        }
    }
    return false;
}

dma_net_entry_t *dma_net_table_find(dma_net_table_t *table, bool (*wanted)(const dma_net_entry_t *, const void *),
                                    const void *arg)
{
    for (uint32_t i = 0; i < chains_of(table); i++) {
        for (dma_net_entry_t **link = chain(table, i); *link; link = &(*link)->next) {
            if (wanted(*link, arg)) {
                return unlink_entry(table, link);
            }
        }
    }
    return NULL;
}

void dma_net_table_free(dma_net_table_t *table)
{
    free(table->many);
    *table = (dma_net_table_t){0};
}
