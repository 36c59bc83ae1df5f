/* Receives without a message and messages without a receive: a table of each, by the sender's key and the tag. */
#include <string.h>

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
    return (uint32_t)(h >> 32) % DMA_NET_BUCKETS;
}

void dma_net_table_add(dma_net_table_t *table, dma_net_entry_t *entry)
{
    dma_net_entry_t **link = &table->first[dma_net_hash(&entry->head)];

    /* At the end: equal tags match in order. */
    while (*link) {
        link = &(*link)->next;
    }
    entry->next = NULL;
    *link = entry;
}

static dma_net_entry_t *unlink_entry(dma_net_entry_t **link)
{
    dma_net_entry_t *entry = *link;

    *link = entry->next;
    return entry;
}

dma_net_entry_t *dma_net_table_take(dma_net_table_t *table, const dma_net_head_t *head)
{
    for (dma_net_entry_t **link = &table->first[dma_net_hash(head)]; *link; link = &(*link)->next) {
        if (same(&(*link)->head, head)) {
            return unlink_entry(link);
        }
    }
    return NULL;
}

bool dma_net_table_has(const dma_net_table_t *table, const dma_net_head_t *head)
{
    const dma_net_entry_t *entry = table->first[dma_net_hash(head)];

    while (entry && !same(&entry->head, head)) {
        entry = entry->next;
    }
    return entry;
}

bool dma_net_table_remove(dma_net_table_t *table, const dma_net_entry_t *entry)
{
    for (dma_net_entry_t **link = &table->first[dma_net_hash(&entry->head)]; *link; link = &(*link)->next) {
        if (*link == entry) {
            unlink_entry(link);
            return true;
        }
    }
    return false;
}

dma_net_entry_t *dma_net_table_find(dma_net_table_t *table, bool (*wanted)(const dma_net_entry_t *, const void *),
                                    const void *arg)
{
    for (unsigned b = 0; b < DMA_NET_BUCKETS; b++) {
        for (dma_net_entry_t **link = &table->first[b]; *link; link = &(*link)->next) {
            if (wanted(*link, arg)) {
                return unlink_entry(link);
            }
        }
    }
    return NULL;
}
