/* Virtually mapped memory, shared by file descriptors: see mapped.h. */
#include "gpu/mapped.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/internal.h"

/* Mixes a value into an id. */
static uint64_t mix(uint64_t id, uint64_t value)
{
    id = (id ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return id ^ id >> 29;
}

/* The id of a range that consists of parts. The highest bit keeps it apart from the runtime's own ids, and from 0. */
static uint64_t finish(uint64_t id)
{
    return mix(id, 0) | UINT64_C(1) << 63;
}

bool dma_mapped_find(const dma_gpu_runtime_t *rt, uint64_t addr, uint64_t bytes, dma_gpu_memory_t *memory)
{
    uint64_t end = addr + bytes, at = addr, base = 0, id = 0;
    int n = 0;

    if (!rt->mapping || end < addr) {
        return false;
    }
    do {
        dma_gpu_mapping_t m;

        if (n++ == DMA_MAPPED_PARTS || rt->mapping(at, &m) != DMA_OK || !m.shareable || !m.id ||
            m.device != memory->device || at - m.base >= m.size || m.size > UINT64_MAX - m.base) {
            return false;
        }
        base = n == 1 ? m.base : base;
        id = mix(mix(mix(id, m.base), m.size), m.id);
        at = m.base + m.size;
    } while (at < end);
    memory->base = base;
    memory->size = at - base;
    memory->buffer_id = finish(id);
    return true;
}

/* ---- the owner ---- */

static bool is_there(const dma_gpu_runtime_t *rt, const dma_wish_t *wish, int device)
{
    dma_gpu_memory_t m = {.device = device};

    return dma_mapped_find(rt, wish->base, wish->size, &m) && m.base == wish->base && m.size == wish->size &&
           m.buffer_id == wish->id;
}

/* Opens the file descriptor of a part (a dma_give_t; `arg` is the runtime). */
static int give(void *arg, const dma_wish_t *wish, dma_given_t *part)
{
    const dma_gpu_runtime_t *rt = arg;
    dma_gpu_mapping_t m;
    dma_gpu_scope_t scope;
    int fd = -1;

    if (rt->mapping(part->addr, &m) != DMA_OK || m.base != part->addr ||
        (part->addr == wish->base && !is_there(rt, wish, m.device)) || rt->enter(m.device, &scope) != DMA_OK) {
        return -1;
    }
    if (rt->map_export(part->addr, &fd) != DMA_OK) {
        fd = -1;
    }
    rt->leave(&scope);
    part->bytes = m.size;
    return fd;
}

bool dma_mapped_share(const dma_gpu_runtime_t *rt, dma_mapped_owner_t *o)
{
    if (!o->giver && !o->refused) {
        errno = ENOENT;
        o->refused = !o->dir || !rt->map_export ||
                     dma_giver_start(o->dir, o->nonce, o->secret, give, (void *)(uintptr_t)rt, &o->giver) != DMA_OK;
        if (o->refused) {
            dma_gpu_fail(DMA_UNSUPPORTED, "no socket for file descriptors: %s", strerror(errno));
        }
    }
    return !o->refused;
}

void dma_mapped_end(dma_mapped_owner_t *o)
{
    if (o->giver) {
        dma_giver_stop(o->giver);
        o->giver = NULL;
    }
    o->refused = true;
}

/* ---- who imports ---- */

typedef struct import_state {
    const dma_gpu_runtime_t *rt;
    dma_mapped_t *mapped;
    uint64_t used; /* bytes of the reservation */
} import_state_t;

/* In scope. */
static dma_status_t take_part(void *arg, int fd, const dma_given_t *part)
{
    import_state_t *i = arg;
    dma_status_t status;

    if (i->mapped->n == DMA_MAPPED_PARTS) {
        return dma_gpu_fail(DMA_UNSUPPORTED, "the memory has too many parts");
    }
    status = i->rt->map_import(i->mapped->base + i->used, part->bytes, fd);
    if (status == DMA_OK) {
        i->mapped->sizes[i->mapped->n++] = part->bytes;
        i->used += part->bytes;
    }
    return status;
}

/* In scope. */
static dma_status_t map_all(import_state_t *i, const char *dir, uint64_t nonce, const dma_wish_t *wish)
{
    dma_mapped_t *m = i->mapped;
    dma_status_t status;
    const char *why;

    m->bytes = wish->size;
    if ((status = i->rt->reserve(m->bytes, &m->base)) != DMA_OK) {
        return status;
    }
    status = dma_giver_ask(dir, nonce, wish, take_part, i, &why);
    if (status != DMA_OK) {
        (void)i->rt->unmap(m->base, m->bytes, m->sizes, m->n);
        return why ? dma_gpu_fail(status, "%s", why) : status;
    }
    return DMA_OK;
}

dma_status_t dma_mapped_open(const dma_gpu_runtime_t *rt, int device, const char *dir, uint64_t nonce,
                             const dma_wish_t *wish, dma_mapped_t **result)
{
    dma_mapped_t *m, *smaller;
    dma_gpu_scope_t scope;
    dma_status_t status;

    if (!rt->reserve || !dir || wish->size > UINT64_MAX - wish->base) {
        return dma_gpu_fail(DMA_UNSUPPORTED, "this process cannot map memory of others");
    }
    if (!(m = calloc(1, sizeof(*m) + DMA_MAPPED_PARTS * sizeof(*m->sizes)))) {
        return DMA_ERR_NOMEM;
    }
    if ((status = rt->enter(device, &scope)) == DMA_OK) {
        status = map_all(&(import_state_t){.rt = rt, .mapped = m}, dir, nonce, wish);
        rt->leave(&scope);
    }
    if (status != DMA_OK) {
        free(m);
        return status;
    }
    smaller = realloc(m, sizeof(*m) + m->n * sizeof(*m->sizes));
    *result = smaller ? smaller : m;
    return DMA_OK;
}

dma_status_t dma_mapped_close(const dma_gpu_runtime_t *rt, int device, dma_mapped_t *m)
{
    dma_gpu_scope_t scope;
    dma_status_t status = rt->enter_to_release(device, &scope);

    if (status == DMA_OK) {
        status = rt->unmap(m->base, m->bytes, m->sizes, m->n);
        rt->leave(&scope);
    }
    free(m);
    return status;
}
