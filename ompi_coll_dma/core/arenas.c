/* The shared memory of the process: its arena, and those of files. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/comm.h"

#define NO_BYTES "its limit is 0"

static void destroy_arena(dma_arena_t *arena)
{
    dma_registry_remove(arena);
    dma_arena_destroy(arena);
}

static dma_status_t make_arena(dma_arena_kind_t kind, size_t bytes, const char *dir, dma_arena_t **arena,
                               dma_why_t *why)
{
    const char *what = "malloc";
    dma_status_t status = dma_arena_create(kind, bytes, dir, arena, &what);

    if (status == DMA_OK && (status = dma_registry_add(*arena)) != DMA_OK) {
        dma_arena_destroy(*arena);
        what = "malloc";
    }
    if (status != DMA_OK) {
        why->reason = DMA_REASON_arena_system;
        snprintf(why->text, sizeof(why->text), "%s: %s", what, strerror(errno));
    }
    return status;
}

dma_status_t dma_proc_arena(dma_proc_t *proc, dma_arena_t **arena, dma_why_t *why)
{
    pthread_mutex_lock(&proc->lock);
    if (!proc->arena && !proc->arena_failed.reason) {
        if (!proc->params.arena_bytes) {
            proc->arena_failed = dma_why(DMA_REASON_arena_limit, NO_BYTES);
        } else if (make_arena(DMA_ARENA_MEMFD, proc->params.arena_bytes, NULL, &proc->arena, &proc->arena_failed) !=
                   DMA_OK) {
            proc->arena = NULL;
        }
    }
    *arena = proc->arena;
    *why = proc->arena_failed;
    pthread_mutex_unlock(&proc->lock);
    return *arena ? DMA_OK : DMA_UNSUPPORTED;
}

/* Destroys retired file arenas that no reader uses any more; with proc->lock. */
static void destroy_unused_files(dma_proc_t *proc)
{
    for (dma_file_arena_t **link = &proc->retired; *link;) {
        dma_file_arena_t *f = *link;

        if (dma_arena_used(f->arena)) {
            link = &f->next;
            continue;
        }
        *link = f->next;
        proc->file_bytes -= dma_arena_bytes(f->arena);
        destroy_arena(f->arena);
        free(f);
    }
}

/* Bytes that may still be taken; with proc->lock. The limit is for anonymous memory and files together. */
static size_t left_bytes(dma_proc_t *proc)
{
    size_t used = proc->file_bytes + (proc->arena ? dma_arena_used(proc->arena) : 0);

    return used < proc->params.arena_bytes ? proc->params.arena_bytes - used : 0;
}

size_t dma_proc_left(dma_proc_t *proc)
{
    size_t left;

    pthread_mutex_lock(&proc->lock);
    destroy_unused_files(proc);
    left = left_bytes(proc);
    pthread_mutex_unlock(&proc->lock);
    return left;
}

dma_status_t dma_proc_file_arena(dma_proc_t *proc, size_t bytes, dma_arena_t **arena, dma_why_t *why)
{
    dma_status_t status = DMA_UNSUPPORTED;

    pthread_mutex_lock(&proc->lock);
    destroy_unused_files(proc);
    if (bytes > left_bytes(proc)) {
        *why = dma_why(DMA_REASON_arena_limit, proc->params.arena_bytes ? NULL : NO_BYTES);
    } else if (make_arena(DMA_ARENA_FILE, bytes, proc->session_dir, arena, why) == DMA_OK) {
        proc->file_bytes += dma_arena_bytes(*arena);
        status = DMA_OK;
    }
    pthread_mutex_unlock(&proc->lock);
    return status;
}

void dma_proc_retire_file(dma_proc_t *proc, dma_arena_t *arena)
{
    dma_file_arena_t *f = malloc(sizeof(*f));

    dma_arena_unlink(arena);
    if (!f) {
        return; /* leak the mapping: peers may still read it */
    }
    pthread_mutex_lock(&proc->lock);
    *f = (dma_file_arena_t){.next = proc->retired, .arena = arena};
    proc->retired = f;
    pthread_mutex_unlock(&proc->lock);
}

void dma_proc_close_arenas(dma_proc_t *proc)
{
    dma_file_arena_t *next;

    for (dma_file_arena_t *f = proc->retired; f; f = next) {
        next = f->next;
        destroy_arena(f->arena);
        free(f);
    }
    if (proc->arena) {
        destroy_arena(proc->arena);
    }
    dma_registry_drop_idle();
}
