/* Datatypes of strips: see libstrips.h. */
#include "libstrips.h"

#include <stdlib.h>
#include <string.h>

#include "libthreads.h"

size_t strips_size(const strips_t *t)
{
    size_t size = 0;

    for (unsigned k = 0; k < t->n; k++) {
        size += t->strips[k].bytes * t->strips[k].n;
    }
    return size;
}

/* Where byte i of packed elements is in the buffer; *left: that many bytes follow each other there, from this one on. */
static ptrdiff_t where(const strips_t *t, size_t size, size_t i, size_t *left)
{
    for (unsigned k = 0; k < t->n; k++) {
        const dma_strip_t *s = &t->strips[k];
        uint64_t in = i % size - s->packed, row = s->n > 1 ? in / s->pitch : 0;

        if (i % size >= s->packed && row < s->n && in - row * s->pitch < s->bytes) {
            *left = s->bytes - (in - row * s->pitch);
            return (ptrdiff_t)(i / size) * t->extent + s->at + (ptrdiff_t)row * s->stride +
                   (ptrdiff_t)(in - row * s->pitch);
        }
    }
    abort();
}

void strips_put(const strips_t *t, size_t size, char *memory, const char *packed, size_t bytes)
{
    size_t left;

    for (size_t i = 0; i < bytes; i += left) {
        ptrdiff_t at = where(t, size, i, &left);

        memcpy(memory + at, packed + i, left);
    }
}

void strips_fill(const strips_t *t, size_t size, char *memory, uint64_t tag, int rank, size_t bytes)
{
    char *packed = malloc(bytes + 1);

    data_fill((uint8_t *)packed, tag, rank, bytes);
    strips_put(t, size, memory, packed, bytes);
    free(packed);
}

void strips_mark(const strips_t *t, size_t size, uint8_t *memory, size_t bytes)
{
    size_t left;

    for (size_t i = 0; i < bytes; i += left) {
        ptrdiff_t at = where(t, size, i, &left);

        memset(memory + at, 1, left);
    }
}

static dma_status_t pack(const void *buf, size_t count, void *type, void *packed, size_t bytes)
{
    size_t size = strips_size(type), left;

    for (size_t i = 0; i < count * size; i += left) {
        ptrdiff_t at = where(type, size, i, &left);

        memcpy((char *)packed + i, (const char *)buf + at, left);
    }
    return bytes == count * size ? DMA_OK : DMA_ERR_ARG;
}

static dma_status_t unpack(void *buf, size_t count, void *type, const void *packed, size_t bytes)
{
    size_t size = strips_size(type);

    strips_put(type, size, buf, packed, count * size);
    return bytes == count * size ? DMA_OK : DMA_ERR_ARG;
}

static dma_status_t layout(const void *type, dma_rows_t *rows)
{
    const strips_t *t = type;
    const dma_strip_t *s = t->strips;

    *rows = (dma_rows_t){.first = s->at, .row = s->bytes, .levels = s->n > 1, .level = {{s->n, s->stride}}};
    return t->regular ? DMA_OK : DMA_UNSUPPORTED;
}

static dma_status_t walk(const void *type, dma_visit_t visit, void *arg)
{
    const strips_t *t = type;
    dma_status_t status = DMA_OK;

    for (unsigned i = 0; status == DMA_OK && i < t->n; i++) {
        status = visit(arg, &t->strips[i]);
    }
    return status;
}

dma_host_t strips_host(void)
{
    dma_host_t host = threads_host;

    host.pack = pack;
    host.unpack = unpack;
    host.type_rows = layout;
    host.type_strips = walk;
    return host;
}
