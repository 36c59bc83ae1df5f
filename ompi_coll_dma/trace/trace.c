/*
 * Writes the file of a trace: see trace.h and file.h.
 *
 * The file is mapped in pieces of PIECE bytes, one at a time. The pages of a piece are allocated before it is mapped, because
 * a store to a page for which there is no room on the disk would end the process.
 */
#include "trace/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dma/file_room.h"

#define PIECE      ((size_t)1 << 20)
#define MOST_FILES 100 /* of one rank: a process can use coll/dma, leave it and use it again */

struct dma_trace {
    pthread_mutex_t lock; /* guards all below */
    int fd;
    char *piece; /* NULL: no more events are written */
    size_t at;   /* offset of `piece` in the file */
    size_t used; /* bytes of it */
    size_t most; /* bytes of the file */
    dma_trace_head_t *head;
    size_t head_bytes;
    uint32_t comms;
};

static int open_file(const dma_trace_config_t *config)
{
    char path[512], job[64];
    int fd = -1;

    snprintf(job, sizeof(job), "%s", config->job);
    for (char *c = job; *c; c++) {
        *c = *c == ',' || *c == '/' ? '-' : *c;
    }
    for (int i = 0; i < MOST_FILES && fd < 0; i++) {
        char more[16] = "";

        if (i) {
            snprintf(more, sizeof(more), ".%d", i);
        }
        snprintf(path, sizeof(path), "%s/%s.%d%s.trace", config->dir, job, config->rank, more);
        fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0 && errno != EEXIST) {
            return -1;
        }
    }
    return fd;
}

static bool allocate(int fd, size_t at, size_t bytes)
{
    errno = EFBIG;
    return dma_file_may_have(at + bytes) && dma_file_allocate(fd, at, bytes);
}

/* Maps the piece at `at`; with the lock. */
static bool map_piece(dma_trace_t *trace, size_t at)
{
    void *piece;

    if (at + PIECE > trace->most || !allocate(trace->fd, at, PIECE)) {
        return false;
    }
    piece = mmap(NULL, PIECE, PROT_READ | PROT_WRITE, MAP_SHARED, trace->fd, (off_t)at);
    if (piece == MAP_FAILED) {
        return false;
    }
    trace->piece = piece;
    trace->at = at;
    trace->used = 0;
    return true;
}

static void read_boot_id(char *text, size_t bytes)
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

    if (file) {
        if (fgets(text, (int)bytes, file)) {
            text[strcspn(text, "\n")] = '\0';
        }
        fclose(file);
    }
}

/* Pieces are mapped behind the head, so they begin at a page. PIECE is a multiple of the pages of all machines. */
static size_t bytes_of_head(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    return page > DMA_TRACE_HEAD ? page : DMA_TRACE_HEAD;
}

static void write_head(dma_trace_head_t *head, uint32_t head_bytes, const dma_trace_config_t *config)
{
    struct timespec t;

    head->event_bytes = sizeof(dma_trace_event_t);
    head->head_bytes = head_bytes;
    head->rank = config->rank;
    head->pid = (int32_t)getpid();
    head->monotonic = dma_trace_now();
    clock_gettime(CLOCK_REALTIME, &t);
    head->realtime = (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
    snprintf(head->job, sizeof(head->job), "%s", config->job);
    gethostname(head->host, sizeof(head->host) - 1);
    read_boot_id(head->clock, sizeof(head->clock));
    head->magic = DMA_TRACE_MAGIC;
}

dma_status_t dma_trace_open(const dma_trace_config_t *config, dma_trace_t **result, const char **what)
{
    dma_trace_t *trace = calloc(1, sizeof(*trace));

    *what = "malloc";
    if (!trace) {
        return DMA_ERR_NOMEM;
    }
    trace->head_bytes = bytes_of_head();
    trace->most = trace->head_bytes + config->bytes / PIECE * PIECE;
    *what = "mkdir";
    if (mkdir(config->dir, 0777) && errno != EEXIST) {
        goto free_trace;
    }
    *what = "open";
    if ((trace->fd = open_file(config)) < 0) {
        goto free_trace;
    }
    *what = "no room on the disk";
    if (!allocate(trace->fd, 0, trace->head_bytes) || !map_piece(trace, trace->head_bytes)) {
        goto close_file;
    }
    *what = "mmap";
    trace->head = mmap(NULL, trace->head_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, trace->fd, 0);
    if (trace->head == MAP_FAILED) {
        munmap(trace->piece, PIECE);
        goto close_file;
    }
    write_head(trace->head, (uint32_t)trace->head_bytes, config);
    pthread_mutex_init(&trace->lock, NULL);
    *result = trace;
    return DMA_OK;

close_file:
    close(trace->fd);
free_trace:
    free(trace);
    return DMA_UNSUPPORTED;
}

void dma_trace_close(dma_trace_t *trace)
{
    if (trace->piece) {
        munmap(trace->piece, PIECE);
    }
    munmap(trace->head, trace->head_bytes);
    if (ftruncate(trace->fd, (off_t)(trace->at + trace->used))) {
        /* zeros stay behind the last event: a reader stops there */
    }
    close(trace->fd);
    pthread_mutex_destroy(&trace->lock);
    free(trace);
}

/* With the lock. NULL: there is no room for another event. */
static dma_trace_event_t *next_event(dma_trace_t *trace)
{
    dma_trace_event_t *event;

    if (trace->piece && trace->used == PIECE) {
        munmap(trace->piece, PIECE);
        if (!map_piece(trace, trace->at + PIECE)) {
            trace->piece = NULL;
        }
    }
    if (!trace->piece) {
        trace->head->lost++;
        return NULL;
    }
    event = (dma_trace_event_t *)(void *)(trace->piece + trace->used);
    trace->used += sizeof(*event);
    return event;
}

void dma_trace_put(const dma_trace_comm_t *comm, const dma_trace_event_t *event)
{
    dma_trace_t *trace = comm->trace;
    dma_trace_event_t *to;

    pthread_mutex_lock(&trace->lock);
    if ((to = next_event(trace))) {
        *to = *event;
        to->comm = comm->number;
    }
    pthread_mutex_unlock(&trace->lock);
}

bool dma_trace_add(dma_trace_t *trace, dma_trace_comm_t *comm, int rank, int nranks, bool inner, uint64_t identity,
                   const char *name)
{
    dma_trace_event_t event = {.at = dma_trace_now(),
                               .kind = DMA_TRACE_COMM,
                               .detail = (uint8_t)inner,
                               .a = (uint64_t)(uint32_t)rank << 32 | (uint32_t)nranks,
                               .b = identity};
    size_t left = strlen(name);
    bool numbered;

    pthread_mutex_lock(&trace->lock);
    numbered = trace->comms < DMA_TRACE_COMMS;
    if (numbered) {
        *comm = (dma_trace_comm_t){.trace = trace, .number = (uint16_t)trace->comms++};
    } else {
        trace->head->unnumbered++;
    }
    pthread_mutex_unlock(&trace->lock);
    if (!numbered) {
        return false;
    }
    dma_trace_put(comm, &event);
    while (left) {
        dma_trace_event_t text = {.kind = DMA_TRACE_TEXT};
        size_t n = left < 8 ? left : 8;

        memcpy(&text.at, name, n);
        name += n;
        left -= n;
        n = left < 16 ? left : 16;
        memcpy(&text.a, name, n);
        name += n;
        left -= n;
        dma_trace_put(comm, &text);
    }
    return true;
}
