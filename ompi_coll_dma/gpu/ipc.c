/* The IPC cache: see ipc.h. All lists are short, because a program uses few allocations in collectives. */
#include "gpu/ipc.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/export.h"
#include "gpu/registered.h"
#include "node/arena.h"

/* Bounds the memory and the search of the list; beyond it, the least recently used export is evicted. */
#define MAX_EXPORTS 1024
#define BRIEF_LOST  2 /* see ipc.h */

/* An allocation that has been exported, or that calls have used without an export: then its number is 0. */
typedef struct export_entry {
    struct export_entry *next;
    dma_export_t export;
    unsigned calls; /* that have used it, up to DMA_IPC_BRIEF_CALLS */
    bool counted;   /* it has been freed and is counted, or its end is none of the application's */
} export_entry_t;

struct dma_import {
    dma_import_t *next;
    uint64_t nonce;
    dma_export_t export;  /* as its owner has published it */
    uint64_t base;        /* the address in this process */
    dma_mapped_t *mapped; /* NULL: opened by its handle */
    int device;
    unsigned uses;
    enum {
        IMPORT_OPEN,    /* in the list of imports */
        IMPORT_OPENING, /* there, too; a thread opens it without the lock */
        IMPORT_CLOSING, /* in the list `closing` */
        IMPORT_CLOSED   /* in no list, but still in use */
    } state;
};

struct dma_ipc {
    const dma_gpu_runtime_t *rt;
    dma_counters_t *counters; /* may be NULL */
    pthread_mutex_t lock;     /* guards all members below */
    dma_mapped_owner_t owner; /* with the nonce of this process */
    uint64_t last_number;
    dma_tied_t tied;
    atomic_uint brief;       /* exported allocations in a row that were freed early; read without the lock too */
    export_entry_t *exports; /* most recently used first */
    unsigned nexports;
    bool evicted;          /* an export has been evicted: its memory may still exist */
    pthread_cond_t opened; /* an import, or it has failed */
    dma_import_t *imports;
    dma_import_t *closing; /* closed here, but the runtime still holds them */
    dma_registration_t *registered;
};

dma_ipc_t *dma_ipc_create(const dma_gpu_runtime_t *rt, dma_counters_t *counters)
{
    dma_ipc_t *ipc = calloc(1, sizeof(*ipc));

    if (ipc) {
        ipc->rt = rt;
        ipc->counters = counters;
        ipc->owner.nonce = dma_random64();
        ipc->owner.secret = dma_random64();
        pthread_mutex_init(&ipc->lock, NULL);
        pthread_cond_init(&ipc->opened, NULL);
    }
    return ipc;
}

static void free_imports(dma_import_t *first)
{
    dma_import_t *next;

    for (; first; first = next) {
        next = first->next;
        free(first->mapped);
        free(first);
    }
}

void dma_ipc_destroy(dma_ipc_t *ipc)
{
    export_entry_t *next;

    dma_mapped_end(&ipc->owner);
    for (export_entry_t *e = ipc->exports; e; e = next) {
        next = e->next;
        free(e);
    }
    free_imports(ipc->imports); /* not closed on purpose: a device may still access them */
    free_imports(ipc->closing); /* the runtime holds them until the process ends */
    dma_registered_forget(&ipc->registered);
    pthread_mutex_destroy(&ipc->lock);
    pthread_cond_destroy(&ipc->opened);
    free(ipc);
}

uint64_t dma_ipc_nonce(const dma_ipc_t *ipc)
{
    return ipc->owner.nonce;
}

dma_mapped_owner_t *dma_ipc_owner(dma_ipc_t *ipc)
{
    return &ipc->owner;
}

bool dma_ipc_shares_mapped(dma_ipc_t *ipc)
{
    bool shares;

    pthread_mutex_lock(&ipc->lock);
    shares = dma_mapped_share(ipc->rt, &ipc->owner);
    pthread_mutex_unlock(&ipc->lock);
    return shares;
}

/* ---- exports ---- */

static bool is_freed(const dma_ipc_t *ipc, const dma_export_t *export)
{
    dma_gpu_memory_t m;

    dma_gpu_classify(ipc->rt, export->base, export->size, &m);
    return !m.exportable || m.base != export->base || m.size != export->size ||
           (export->buffer_id && m.buffer_id != export->buffer_id);
}

static void count_freed(dma_ipc_t *ipc, export_entry_t *e)
{
    unsigned brief = atomic_load_explicit(&ipc->brief, memory_order_relaxed); /* with the lock */

    if (!e->counted && e->export.number) {
        e->counted = true;
        atomic_store_explicit(&ipc->brief, e->calls < DMA_IPC_BRIEF_CALLS ? brief + (brief < BRIEF_LOST) : 0,
                              memory_order_relaxed);
    }
}

static void count_calls(export_entry_t *e, unsigned calls)
{
    e->calls = e->calls + calls < DMA_IPC_BRIEF_CALLS ? e->calls + calls : DMA_IPC_BRIEF_CALLS;
}

/* Is the old memory gone now that there is the new one? */
static bool displaces(const dma_ipc_t *ipc, const dma_export_t *new, const dma_export_t *old)
{
    return dma_export_overlaps(new, old) && !(new->mapped && old->mapped && !is_freed(ipc, old));
}

/* With the lock. Returns the entry of an allocation and moves it to the front. Removes the entries of earlier
 * allocations at its addresses. */
static export_entry_t *find_export(dma_ipc_t *ipc, const dma_export_t *wanted)
{
    for (export_entry_t **link = &ipc->exports; *link;) {
        export_entry_t *e = *link;

        if (dma_export_is_same(&e->export, wanted)) {
            *link = e->next;
            e->next = ipc->exports;
            ipc->exports = e;
            return e;
        }
        if (displaces(ipc, wanted, &e->export)) {
            *link = e->next;
            count_freed(ipc, e);
            free(e);
            ipc->nexports--;
            continue;
        }
        link = &e->next;
    }
    return NULL;
}

/* The oldest that is not exported, if there is one. */
static void evict_oldest(dma_ipc_t *ipc)
{
    export_entry_t **oldest = NULL, *e;

    for (export_entry_t **link = &ipc->exports; *link; link = &(*link)->next) {
        if (!oldest || !(*link)->export.number || (*oldest)->export.number) {
            oldest = link;
        }
    }
    e = *oldest;
    *oldest = e->next;
    ipc->evicted |= e->export.number != 0;
    ipc->nexports--;
    free(e);
}

/* With the lock. The lowest number of an export in the blocks of `wanted` that may still exist. */
static uint64_t first_live(const dma_ipc_t *ipc, const dma_export_t *wanted)
{
    uint64_t first = ipc->evicted ? 0 : ipc->last_number + 1;

    for (const export_entry_t *e = ipc->exports; e; e = e->next) {
        if (e->export.number && e->export.number < first && dma_export_shares_block(&e->export, wanted) &&
            !is_freed(ipc, &e->export)) {
            first = e->export.number;
        }
    }
    return first;
}

/* With the lock. */
static dma_status_t add_entry(dma_ipc_t *ipc, const dma_export_t *wanted, export_entry_t **result)
{
    export_entry_t *e = malloc(sizeof(*e));

    if (!e) {
        return DMA_ERR_NOMEM;
    }
    if (ipc->nexports == MAX_EXPORTS) {
        evict_oldest(ipc);
    }
    *e = (export_entry_t){.next = ipc->exports, .export = *wanted};
    ipc->exports = *result = e;
    ipc->nexports++;
    return DMA_OK;
}

/* With the lock. */
static dma_status_t get_handle(dma_ipc_t *ipc, const dma_gpu_memory_t *m, dma_gpu_handle_t *handle)
{
    const dma_gpu_runtime_t *rt = ipc->rt;
    dma_gpu_scope_t scope;
    dma_status_t status;

    if (m->mapped) {
        *handle = (dma_gpu_handle_t){{0}};
        memcpy(handle->bytes, &ipc->owner.secret, sizeof(ipc->owner.secret));
        return dma_mapped_share(rt, &ipc->owner) ? DMA_OK : DMA_UNSUPPORTED;
    }
    status = rt->enter(m->device, &scope);
    if (status == DMA_OK) {
        status = rt->ipc_export(m->base, handle);
        rt->leave(&scope);
    }
    if (status == DMA_OK && dma_tied_concerns(rt, m)) {
        dma_tied_add(&ipc->tied, m->base);
    }
    return status;
}

bool dma_ipc_may_export(dma_ipc_t *ipc, const dma_gpu_memory_t *m)
{
    bool may = true;

    if (dma_tied_concerns(ipc->rt, m)) {
        pthread_mutex_lock(&ipc->lock);
        may = dma_tied_has_room(&ipc->tied, ipc->rt, m->base);
        pthread_mutex_unlock(&ipc->lock);
    }
    return may;
}

static dma_export_t description_of(const dma_gpu_memory_t *m)
{
    return (dma_export_t){.base = m->base, .size = m->size, .buffer_id = m->buffer_id, .mapped = m->mapped};
}

dma_status_t dma_ipc_export(dma_ipc_t *ipc, const dma_gpu_memory_t *m, dma_export_t *export)
{
    dma_export_t wanted = description_of(m);
    export_entry_t *e = NULL;
    dma_status_t status = DMA_OK;

    pthread_mutex_lock(&ipc->lock);
    if (!m->buffer_id || !(e = find_export(ipc, &wanted)) || !e->export.number) {
        status = get_handle(ipc, m, &wanted.handle);
        if (status == DMA_OK && !e && !(e = m->buffer_id ? NULL : find_export(ipc, &wanted))) {
            status = add_entry(ipc, &wanted, &e);
        }
    }
    if (status == DMA_OK && !e->export.number) {
        e->export.handle = wanted.handle;
        e->export.first = first_live(ipc, &wanted);
        e->export.number = ++ipc->last_number;
    }
    if (status == DMA_OK) {
        *export = e->export;
        count_calls(e, 1);
    }
    pthread_mutex_unlock(&ipc->lock);
    return status;
}

/* With the lock. */
static export_entry_t *find_number(const dma_ipc_t *ipc, uint64_t number)
{
    export_entry_t *e = ipc->exports;

    while (e && e->export.number != number) {
        e = e->next;
    }
    return e;
}

void dma_ipc_is_ours(dma_ipc_t *ipc, uint64_t number)
{
    export_entry_t *e;

    pthread_mutex_lock(&ipc->lock);
    if ((e = find_number(ipc, number))) {
        e->counted = true;
    }
    pthread_mutex_unlock(&ipc->lock);
}

void dma_ipc_count_calls(dma_ipc_t *ipc, uint64_t number, unsigned calls)
{
    export_entry_t *e;

    pthread_mutex_lock(&ipc->lock);
    if ((e = find_number(ipc, number))) {
        count_calls(e, calls);
    }
    pthread_mutex_unlock(&ipc->lock);
}

bool dma_ipc_is_freed(dma_ipc_t *ipc, uint64_t number)
{
    export_entry_t *e;
    bool freed;

    pthread_mutex_lock(&ipc->lock);
    e = find_number(ipc, number);
    /* No entry: it was evicted, or other memory was exported at its address. */
    freed = !e || is_freed(ipc, &e->export);
    if (e && freed) {
        count_freed(ipc, e);
    }
    pthread_mutex_unlock(&ipc->lock);
    return freed;
}

/* ---- memory that is not worth an export ---- */

bool dma_ipc_is_brief(dma_ipc_t *ipc, const dma_gpu_memory_t *m)
{
    dma_export_t wanted = description_of(m);
    export_entry_t *e;
    bool brief;

    /* relaxed: a call more or less makes no difference */
    if (atomic_load_explicit(&ipc->brief, memory_order_relaxed) < BRIEF_LOST || !m->buffer_id || m->mapped) {
        return false;
    }
    pthread_mutex_lock(&ipc->lock);
    e = find_export(ipc, &wanted);
    brief = !e || (!e->export.number && e->calls < DMA_IPC_BRIEF_CALLS - 1);
    pthread_mutex_unlock(&ipc->lock);
    return brief;
}

void dma_ipc_use_brief(dma_ipc_t *ipc, const dma_gpu_memory_t *m)
{
    dma_export_t wanted = description_of(m);
    export_entry_t *e;

    pthread_mutex_lock(&ipc->lock);
    if ((e = find_export(ipc, &wanted)) || add_entry(ipc, &wanted, &e) == DMA_OK) {
        count_calls(e, 1);
    }
    pthread_mutex_unlock(&ipc->lock);
}

/* ---- imports ---- */

static dma_status_t open_handle(const dma_gpu_runtime_t *rt, int device, const dma_gpu_handle_t *handle, uint64_t *base)
{
    dma_gpu_scope_t scope;
    dma_status_t status = rt->enter(device, &scope);

    if (status == DMA_OK) {
        status = rt->ipc_open(handle, base);
        rt->leave(&scope);
    }
    return status;
}

static dma_status_t open_import(const dma_ipc_t *ipc, dma_import_t *i)
{
    const dma_export_t *e = &i->export;
    dma_wish_t wish = {.base = e->base, .size = e->size, .id = e->buffer_id};
    dma_status_t status;

    if (!e->mapped) {
        return open_handle(ipc->rt, i->device, &e->handle, &i->base);
    }
    memcpy(&wish.secret, e->handle.bytes, sizeof(wish.secret));
    if ((status = dma_mapped_open(ipc->rt, i->device, ipc->owner.dir, i->nonce, &wish, &i->mapped)) == DMA_OK) {
        i->base = i->mapped->base;
    }
    return status;
}

/* Fails if the application has shut the runtime down. Then nothing is left to close. */
static dma_status_t close_handle(const dma_gpu_runtime_t *rt, const dma_import_t *import)
{
    dma_gpu_scope_t scope;
    dma_status_t status;

    if (import->mapped) {
        return dma_mapped_close(rt, import->device, import->mapped);
    }
    status = rt->enter_to_release(import->device, &scope);
    if (status == DMA_OK) {
        status = rt->ipc_close(import->base);
        rt->leave(&scope);
    }
    return status;
}

static void unlink_import(dma_import_t **link, const dma_import_t *import)
{
    while (*link != import) {
        link = &(*link)->next;
    }
    *link = import->next;
}

/* With the lock. The import is in no list. If the runtime still holds it, later calls try to close it again. */
static void close_import(dma_ipc_t *ipc, dma_import_t *import)
{
    if (close_handle(ipc->rt, import) == DMA_AGAIN) {
        import->state = IMPORT_CLOSING;
        import->next = ipc->closing;
        ipc->closing = import;
    } else {
        import->state = IMPORT_CLOSED;
        if (!import->uses) {
            free(import);
        }
    }
}

static void retry_closing(dma_ipc_t *ipc)
{
    dma_import_t *all = ipc->closing, *i;

    ipc->closing = NULL;
    while ((i = all)) {
        all = i->next;
        close_import(ipc, i);
    }
}

static bool is_import_of(const dma_import_t *import, int device, uint64_t nonce)
{
    return import->nonce == nonce && import->device == device;
}

static bool is_same(const dma_import_t *import, const dma_export_t *export)
{
    return import->export.number == export->number || dma_export_is_same(&import->export, export);
}

/* With the lock. Returns the open import of this allocation, if there is one. Closes imports that the allocation
 * conflicts with, even if they are in use: their owner has freed them, so they have no memory any more. */
static dma_import_t *find_import(dma_ipc_t *ipc, int device, uint64_t nonce, const dma_export_t *export)
{
    for (dma_import_t **link = &ipc->imports; *link;) {
        dma_import_t *i = *link;

        if (is_import_of(i, device, nonce) && (is_same(i, export) || dma_export_conflicts(export, &i->export))) {
            if (i->state == IMPORT_OPENING) {
                pthread_cond_wait(&ipc->opened, &ipc->lock);
                link = &ipc->imports; /* the list may be another one */
            } else if (is_same(i, export)) {
                return i;
            } else {
                *link = i->next;
                close_import(ipc, i);
            }
        } else {
            link = &i->next;
        }
    }
    return NULL;
}

/* With the lock. Reopens the import of this allocation if it was waiting to be closed. *result is NULL with DMA_OK
 * if there is no such import and nothing conflicts. DMA_AGAIN: the runtime still holds an import that conflicts. */
static dma_status_t find_closing(dma_ipc_t *ipc, int device, uint64_t nonce, const dma_export_t *export,
                                 dma_import_t **result)
{
    *result = NULL;
    for (dma_import_t *i = ipc->closing; i; i = i->next) {
        if (!is_import_of(i, device, nonce)) {
            continue;
        }
        if (is_same(i, export)) {
            unlink_import(&ipc->closing, i);
            i->state = IMPORT_OPEN;
            i->next = ipc->imports;
            *result = ipc->imports = i;
            return DMA_OK;
        }
        if (dma_export_conflicts(export, &i->export)) {
            return DMA_AGAIN;
        }
    }
    return DMA_OK;
}

/* With the lock, which it gives away meanwhile: opening may wait for the owner's process. */
static dma_status_t open_new(dma_ipc_t *ipc, int device, uint64_t nonce, const dma_export_t *export,
                             dma_import_t **result)
{
    dma_import_t *i = malloc(sizeof(*i));
    dma_status_t status;

    if (!i) {
        return DMA_ERR_NOMEM;
    }
    *i = (dma_import_t){.next = ipc->imports, .nonce = nonce, .export = *export, .device = device};
    i->state = IMPORT_OPENING;
    ipc->imports = i;
    pthread_mutex_unlock(&ipc->lock);
    status = open_import(ipc, i);
    pthread_mutex_lock(&ipc->lock);
    i->state = IMPORT_OPEN;
    pthread_cond_broadcast(&ipc->opened);
    if (status != DMA_OK) {
        unlink_import(&ipc->imports, i);
        free(i);
        return status;
    }
    if (ipc->counters) {
        dma_counters_add(ipc->counters, DMA_COUNT_imports, 1);
    }
    *result = i;
    return DMA_OK;
}

dma_status_t dma_ipc_open(dma_ipc_t *ipc, int device, uint64_t nonce, const dma_export_t *export, dma_import_t **result)
{
    dma_status_t status = DMA_OK;
    dma_import_t *i;

    pthread_mutex_lock(&ipc->lock);
    retry_closing(ipc);
    if (!(i = find_import(ipc, device, nonce, export))) {
        status = find_closing(ipc, device, nonce, export, &i);
    }
    if (!i && status == DMA_OK) {
        status = open_new(ipc, device, nonce, export, &i);
    }
    if (status == DMA_OK) {
        i->uses++;
        *result = i;
    }
    pthread_mutex_unlock(&ipc->lock);
    return status;
}

uint64_t dma_import_base(const dma_import_t *import)
{
    return import->base;
}

void dma_ipc_close(dma_ipc_t *ipc, dma_import_t *import)
{
    pthread_mutex_lock(&ipc->lock);
    retry_closing(ipc);
    if (!--import->uses) {
        switch (import->state) {
        case IMPORT_OPEN:
            unlink_import(&ipc->imports, import);
            close_import(ipc, import);
            break;
        case IMPORT_OPENING: /* it has no user yet */
        case IMPORT_CLOSING:
            break;
        case IMPORT_CLOSED:
            free(import);
            break;
        }
    }
    pthread_mutex_unlock(&ipc->lock);
}

/* ---- registrations ---- */

dma_status_t dma_ipc_register(dma_ipc_t *ipc, int device, void *addr, size_t bytes, uint64_t *device_addr)
{
    dma_status_t status;

    pthread_mutex_lock(&ipc->lock);
    status = dma_registered_add(&ipc->registered, ipc->rt, device, addr, bytes, device_addr);
    pthread_mutex_unlock(&ipc->lock);
    return status;
}

dma_status_t dma_ipc_unregister(dma_ipc_t *ipc, const void *addr)
{
    dma_status_t status;

    pthread_mutex_lock(&ipc->lock);
    status = dma_registered_remove(&ipc->registered, ipc->rt, addr);
    pthread_mutex_unlock(&ipc->lock);
    return status;
}
