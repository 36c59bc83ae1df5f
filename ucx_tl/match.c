/* Hash tables: of posted receives and unexpected messages by the sender's key and the tag, of communicators, and of peers. */
#include <stdlib.h>

#include "internal.h"

static bool same(const dma_ucx_header_t *a, const dma_ucx_header_t *b)
{
    return a->key == b->key && a->tag.comm == b->tag.comm && a->tag.owner == b->tag.owner && a->tag.seq == b->tag.seq &&
           a->tag.step == b->tag.step;
}

uint32_t dma_ucx_hash(const dma_ucx_header_t *header)
{
    uint64_t h = header->key;

    h = (h ^ header->tag.comm) * 0x9e3779b97f4a7c15ull;
    h = (h ^ (h >> 29) ^ header->tag.owner) * 0x9e3779b97f4a7c15ull;
    h = (h ^ (h >> 29) ^ ((uint64_t)header->tag.seq << 32 | header->tag.step)) * 0x9e3779b97f4a7c15ull;
    return (uint32_t)(h >> 32);
}

static uint32_t chain_count(const dma_ucx_table_t *table)
{
    return table->nchains ? table->nchains : DMA_UCX_INLINE_CHAINS;
}

static dma_ucx_entry_t **chain(dma_ucx_table_t *table, uint32_t n)
{
    return table->array ? &table->array[n] : &table->inline_chains[n];
}

static dma_ucx_entry_t **chain_of(dma_ucx_table_t *table, const dma_ucx_header_t *header)
{
    return chain(table, dma_ucx_hash(header) & (chain_count(table) - 1));
}

/* Doubles the number of chains: each chain becomes two, in which entries keep their order. */
static void grow(dma_ucx_table_t *table)
{
    uint32_t n = chain_count(table);
    dma_ucx_entry_t **chains = calloc(2 * (size_t)n, sizeof(*chains));

    for (uint32_t i = 0; chains && i < n; i++) {
        dma_ucx_entry_t **ends[2] = {&chains[i], &chains[i + n]};

        for (dma_ucx_entry_t *entry = *chain(table, i), *next; entry; entry = next) {
            dma_ucx_entry_t ***end = &ends[(dma_ucx_hash(&entry->header) & n) != 0];

            next = entry->next;
            entry->next = NULL;
            **end = entry;
            *end = &entry->next;
        }
    }
    if (chains) {
        free(table->array);
        table->array = chains;
        table->nchains = 2 * n;
    }
}

void dma_ucx_table_add(dma_ucx_table_t *table, dma_ucx_entry_t *entry)
{
    dma_ucx_entry_t **link;

    if (++table->count > 2 * chain_count(table)) {
        grow(table);
    }
    link = chain_of(table, &entry->header);
    /* Append, because equal tags match in order. */
    while (*link) {
        link = &(*link)->next;
    }
    entry->next = NULL;
    *link = entry;
}

static dma_ucx_entry_t *unlink_entry(dma_ucx_table_t *table, dma_ucx_entry_t **link)
{
    dma_ucx_entry_t *entry = *link;

    *link = entry->next;
    table->count--;
    return entry;
}

dma_ucx_entry_t *dma_ucx_table_pop(dma_ucx_table_t *table, const dma_ucx_header_t *header)
{
    for (dma_ucx_entry_t **link = chain_of(table, header); *link; link = &(*link)->next) {
        if (same(&(*link)->header, header)) {
            return unlink_entry(table, link);
        }
    }
    return NULL;
}

dma_ucx_entry_t *dma_ucx_table_find(dma_ucx_table_t *table, const dma_ucx_header_t *header)
{
    dma_ucx_entry_t *entry = *chain_of(table, header);

    while (entry && !same(&entry->header, header)) {
        entry = entry->next;
    }
    return entry;
}

bool dma_ucx_table_remove(dma_ucx_table_t *table, const dma_ucx_entry_t *entry)
{
    for (dma_ucx_entry_t **link = chain_of(table, &entry->header); *link; link = &(*link)->next) {
        if (*link == entry) {
            unlink_entry(table, link);
            return true;
        }
    }
    return false;
}

dma_ucx_entry_t *dma_ucx_table_pop_if(dma_ucx_table_t *table, bool (*match)(const dma_ucx_entry_t *, const void *),
                                      const void *arg)
{
    for (uint32_t i = 0; i < chain_count(table); i++) {
        for (dma_ucx_entry_t **link = chain(table, i); *link; link = &(*link)->next) {
            if (match(*link, arg)) {
                return unlink_entry(table, link);
            }
        }
    }
    return NULL;
}

void dma_ucx_table_free(dma_ucx_table_t *table)
{
    free(table->array);
    *table = (dma_ucx_table_t){0};
}
