/* Exports, imports and registrations: see share.h. Short lists: a program uses few allocations in collectives. */
#include "gpu/share.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "node/arena.h"

#define MOST_EXPORTS 1024 /* remembered; the one not used for the longest time makes room */

typedef struct exported {
    struct exported *next;
    dma_export_t export;
    uint64_t buffer_id;
} exported_t;

struct dma_import {
    dma_import_t *next;
    uint64_t nonce, number, base;
    int device;
    unsigned uses;
};

typedef struct pinned {
    struct pinned *next;
    const void *addr;
    size_t bytes;
    uint64_t device_addr;
    int device;
    unsigned uses;
} pinned_t;

struct dma_share {
    const dma_gpu_runtime_t *rt;
    pthread_mutex_t lock; /* guards everything below */
    uint64_t nonce;
    uint64_t last_number;
    exported_t *exports; /* the last used first */
    unsigned nexports;
    dma_import_t *imports;
    pinned_t *pins;
};

dma_share_t *dma_share_create(const dma_gpu_runtime_t *rt)
{
    dma_share_t *share = calloc(1, sizeof(*share));

    if (share) {
        share->rt = rt;
        share->nonce = dma_random64();
        pthread_mutex_init(&share->lock, NULL);
    }
    return share;
}

void dma_share_destroy(dma_share_t *share)
{
    exported_t *next;
    dma_import_t *i;
    pinned_t *p;

    for (exported_t *e = share->exports; e; e = next) {
        next = e->next;
        free(e);
    }
    while ((i = share->imports)) { /* left open on purpose */
        share->imports = i->next;
        free(i);
    }
    while ((p = share->pins)) {
        share->pins = p->next;
        free(p);
    }
    pthread_mutex_destroy(&share->lock);
    free(share);
}

uint64_t dma_share_nonce(const dma_share_t *share)
{
    return share->nonce;
}

/* ---- exports ---- */

/* With the lock: the entry for an allocation, moved to the front; those of allocations that had its address go. */
static exported_t *find_export(dma_share_t *share, const dma_gpu_memory_t *m, const dma_gpu_handle_t *handle)
{
    for (exported_t **link = &share->exports; *link;) {
        exported_t *e = *link;
        bool same = e->export.base == m->base && e->export.size == m->size && e->buffer_id == m->buffer_id &&
                    (!handle || !memcmp(handle, &e->export.handle, sizeof(*handle)));
        bool overlaps = e->export.base < m->base + m->size && m->base < e->export.base + e->export.size;

        if (same) {
            *link = e->next;
            e->next = share->exports;
            share->exports = e;
            return e;
        }
        if (overlaps) {
            *link = e->next;
            free(e);
            share->nexports--;
            continue;
        }
        link = &e->next;
    }
    return NULL;
}

static void drop_oldest(dma_share_t *share)
{
    exported_t **link = &share->exports;

    while ((*link)->next) {
        link = &(*link)->next;
    }
    free(*link);
    *link = NULL;
    share->nexports--;
}

static dma_status_t add_export(dma_share_t *share, const dma_gpu_memory_t *m, const dma_gpu_handle_t *handle,
                               exported_t **result)
{
    exported_t *e = malloc(sizeof(*e));

    if (!e) {
        return DMA_ERR_NOMEM;
    }
    if (share->nexports == MOST_EXPORTS) {
        drop_oldest(share);
    }
    *e = (exported_t){
        .next = share->exports,
        .export = {.number = ++share->last_number, .base = m->base, .size = m->size, .handle = *handle},
        .buffer_id = m->buffer_id,
    };
    share->exports = e;
    share->nexports++;
    *result = e;
    return DMA_OK;
}

static dma_status_t handle_of(const dma_gpu_runtime_t *rt, const dma_gpu_memory_t *m, dma_gpu_handle_t *handle)
{
    dma_gpu_scope_t scope;
    dma_status_t status = rt->enter(m->device, &scope);

    if (status == DMA_OK) {
        status = rt->ipc_export(m->base, handle);
        rt->leave(&scope);
    }
    return status;
}

dma_status_t dma_share_export(dma_share_t *share, const dma_gpu_memory_t *m, dma_export_t *export)
{
    dma_gpu_handle_t handle;
    exported_t *e = NULL;
    dma_status_t status = DMA_OK;

    pthread_mutex_lock(&share->lock);
    if (!m->buffer_id || !(e = find_export(share, m, NULL))) {
        status = handle_of(share->rt, m, &handle);
        if (status == DMA_OK && !(e = m->buffer_id ? NULL : find_export(share, m, &handle))) {
            status = add_export(share, m, &handle, &e);
        }
    }
    if (status == DMA_OK) {
        *export = e->export;
    }
    pthread_mutex_unlock(&share->lock);
    return status;
}

/* ---- imports ---- */

static dma_status_t open_on(const dma_gpu_runtime_t *rt, int device, const dma_gpu_handle_t *handle, uint64_t *base)
{
    dma_gpu_scope_t scope;
    dma_status_t status = rt->enter(device, &scope);

    if (status == DMA_OK) {
        status = rt->ipc_open(handle, base);
        rt->leave(&scope);
    }
    return status;
}

dma_status_t dma_share_open(dma_share_t *share, int device, uint64_t nonce, const dma_export_t *export,
                            dma_import_t **result)
{
    dma_import_t *i;
    dma_status_t status = DMA_OK;

    pthread_mutex_lock(&share->lock);
    for (i = share->imports; i; i = i->next) {
        if (i->nonce == nonce && i->number == export->number && i->device == device) {
            break;
        }
    }
    if (!i) {
        if (!(i = malloc(sizeof(*i)))) {
            status = DMA_ERR_NOMEM;
            goto unlock;
        }
        *i = (dma_import_t){.next = share->imports, .nonce = nonce, .number = export->number, .device = device};
        if ((status = open_on(share->rt, device, &export->handle, &i->base)) != DMA_OK) {
            free(i);
            goto unlock;
        }
        share->imports = i;
    }
    i->uses++;
    *result = i;
unlock:
    pthread_mutex_unlock(&share->lock);
    return status;
}

uint64_t dma_import_base(const dma_import_t *import)
{
    return import->base;
}

void dma_share_close(dma_share_t *share, dma_import_t *import)
{
    dma_gpu_scope_t scope;

    pthread_mutex_lock(&share->lock);
    if (!--import->uses) {
        dma_import_t **link = &share->imports;

        while (*link != import) {
            link = &(*link)->next;
        }
        *link = import->next;
        /* Fails where the application has shut the runtime down: then there is nothing left to close. */
        if (share->rt->enter(import->device, &scope) == DMA_OK) {
            share->rt->ipc_close(import->base);
            share->rt->leave(&scope);
        }
        free(import);
    }
    pthread_mutex_unlock(&share->lock);
}

/* ---- registrations ----
 * A process has one per address, for all its devices: HIP takes a second one of the same address without a word, and the
 * first hipHostUnregister ends both. The address on the devices is one, too. */

static dma_status_t pin_on(const dma_gpu_runtime_t *rt, int device, void *addr, size_t bytes, uint64_t *device_addr)
{
    dma_gpu_scope_t scope;
    dma_status_t status = rt->enter(device, &scope);

    if (status == DMA_OK) {
        status = rt->host_register(addr, bytes, device_addr);
        rt->leave(&scope);
    }
    return status;
}

dma_status_t dma_share_pin(dma_share_t *share, int device, void *addr, size_t bytes, uint64_t *device_addr)
{
    dma_status_t status = DMA_OK;
    pinned_t *p;

    pthread_mutex_lock(&share->lock);
    for (p = share->pins; p; p = p->next) {
        if (p->addr == addr && p->bytes >= bytes) {
            break;
        }
    }
    if (!p) {
        if (!(p = malloc(sizeof(*p)))) {
            status = DMA_ERR_NOMEM;
            goto unlock;
        }
        *p = (pinned_t){.next = share->pins, .addr = addr, .bytes = bytes, .device = device};
        if ((status = pin_on(share->rt, device, addr, bytes, &p->device_addr)) != DMA_OK) {
            free(p);
            goto unlock;
        }
        share->pins = p;
    }
    p->uses++;
    *device_addr = p->device_addr;
unlock:
    pthread_mutex_unlock(&share->lock);
    return status;
}

void dma_share_unpin(dma_share_t *share, const void *addr)
{
    dma_gpu_scope_t scope;
    pinned_t **link, *p;

    pthread_mutex_lock(&share->lock);
    for (link = &share->pins; *link && (*link)->addr != addr; link = &(*link)->next) {
    }
    if ((p = *link) && !--p->uses) {
        *link = p->next;
        if (share->rt->enter(p->device, &scope) == DMA_OK) {
            share->rt->host_unregister((void *)addr);
            share->rt->leave(&scope);
        }
        free(p);
    }
    pthread_mutex_unlock(&share->lock);
}
