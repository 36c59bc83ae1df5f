/* Writes what coll_dma_state shows: see state.h. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/comm.h"
#include "dma/file_room.h"

#define PAGE_ROWS (4096 / DMA_STATE_ROW_BYTES)

/* ---- the memory ---- */

void dma_state_init(dma_proc_t *proc, const char *job, int rank)
{
    proc->state.fd = -1;
    snprintf(proc->job, sizeof(proc->job), "%s", job ? job : "");
    proc->world_rank = rank;
}

/* Pages behind row `row`, so that a store to it cannot fail. The first rows have theirs together with the head, and the others with
 * the first row of their page. */
static bool allocate_row(const dma_state_t *state, unsigned row)
{
    size_t at = DMA_STATE_HEAD + (size_t)row * DMA_STATE_ROW_BYTES;

    return row < PAGE_ROWS || row % PAGE_ROWS || dma_file_allocate(state->fd, at, PAGE_ROWS * DMA_STATE_ROW_BYTES);
}

static void write_head(dma_proc_t *proc)
{
    dma_state_head_t *head = (dma_state_head_t *)(void *)proc->state.base;

    head->pid = (uint64_t)getpid();
    head->rank = proc->world_rank;
    memcpy(head->job, proc->job, sizeof(head->job));
    atomic_thread_fence(memory_order_release); /* a reader that finds the magic finds the rest */
    *(volatile uint64_t *)&head->magic = DMA_STATE_MAGIC;
}

/* With the lock of the process. Without this memory all works, and coll_dma_state says that it finds nothing. */
static bool open_state(dma_proc_t *proc)
{
    dma_state_t *state = &proc->state;

    if (state->tried) {
        return state->fd >= 0;
    }
    state->tried = true;
    state->fd = memfd_create(DMA_STATE_NAME, MFD_CLOEXEC);
    if (state->fd < 0) {
        return false;
    }
    if (!dma_file_may_have(DMA_STATE_BYTES) || fchmod(state->fd, 0600) || ftruncate(state->fd, DMA_STATE_BYTES) ||
        !dma_file_allocate(state->fd, 0, DMA_STATE_HEAD + PAGE_ROWS * DMA_STATE_ROW_BYTES)) {
        goto close_fd;
    }
    state->base = mmap(NULL, DMA_STATE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, state->fd, 0);
    if (state->base == MAP_FAILED) {
        goto close_fd;
    }
    write_head(proc);
    return true;

close_fd:
    close(state->fd);
    state->fd = -1;
    return false;
}

void dma_state_close(dma_proc_t *proc)
{
    if (proc->state.fd >= 0) {
        munmap(proc->state.base, DMA_STATE_BYTES);
        close(proc->state.fd);
        proc->state.fd = -1;
    }
}

/* ---- rows ---- */

static dma_state_row_t *row_at(const dma_state_t *state, unsigned row)
{
    return (dma_state_row_t *)(void *)(state->base + DMA_STATE_HEAD + (size_t)row * DMA_STATE_ROW_BYTES);
}

/* A row that nobody has, or NULL; with the lock of the process. */
static dma_state_row_t *take_row(dma_state_t *state)
{
    dma_state_head_t *head = (dma_state_head_t *)(void *)state->base;
    unsigned row = 0;

    while (row < DMA_STATE_ROWS && state->taken[row / 64] >> row % 64 & 1) {
        row++;
    }
    if (row == DMA_STATE_ROWS || !allocate_row(state, row)) {
        atomic_fetch_add_explicit(&head->unshown, 1, memory_order_relaxed);
        return NULL;
    }
    state->taken[row / 64] |= UINT64_C(1) << row % 64;
    head->rows = row < head->rows ? head->rows : row + 1;
    return row_at(state, row);
}

void dma_state_take(dma_comm_t *comm)
{
    dma_proc_t *proc = comm->proc;
    dma_state_row_t *row;

    if (comm->row != &proc->state.nowhere) {
        return; /* since its first calls */
    }
    pthread_mutex_lock(&proc->lock);
    row = open_state(proc) ? take_row(&proc->state) : NULL;
    pthread_mutex_unlock(&proc->lock);
    if (row) {
        comm->row = row;
        atomic_store_explicit(&row->begun, comm->seq, memory_order_relaxed);
        atomic_store_explicit(&row->completed, comm->seq, memory_order_relaxed);
    }
}

void dma_state_give_back(dma_comm_t *comm)
{
    dma_proc_t *proc = comm->proc;
    dma_state_t *state = &proc->state;
    size_t row;

    if (comm->row == &state->nowhere) {
        return;
    }
    comm->state = DMA_COMM_NEW;
    dma_state_update(comm);
    pthread_mutex_lock(&proc->lock);
    row = (size_t)((char *)comm->row - state->base - DMA_STATE_HEAD) / DMA_STATE_ROW_BYTES;
    state->taken[row / 64] &= ~(UINT64_C(1) << row % 64);
    pthread_mutex_unlock(&proc->lock);
    comm->row = &state->nowhere;
}

/* ---- what a row says; with the lock of the communicator ---- */

static void begin_write(dma_state_row_t *row)
{
    atomic_fetch_add_explicit(&row->version, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release); /* the odd version before what follows */
}

static void end_write(dma_state_row_t *row)
{
    atomic_fetch_add_explicit(&row->version, 1, memory_order_release);
}

void dma_state_update(dma_comm_t *comm)
{
    dma_state_row_t *row = comm->row;
    bool explained = comm->state == DMA_COMM_ASIDE || comm->state == DMA_COMM_POISONED || comm->state == DMA_COMM_FIRST;

    if (row == &comm->proc->state.nowhere) {
        return;
    }
    begin_write(row);
    row->state = comm->state;
    row->rank = comm->rank;
    row->nranks = comm->nranks;
    row->inner = comm->inner;
    row->identity = comm->identity;
    row->wait.since = 0;
    snprintf(row->name, sizeof(row->name), "%.*s", (int)sizeof(row->name) - 1, comm->text);
    snprintf(row->reason, sizeof(row->reason), "%.*s", (int)sizeof(row->reason) - 1, explained ? comm->reason : "");
    end_write(row);
}

bool dma_state_is_due(const dma_comm_t *comm, double now)
{
    return now - comm->since >= DMA_STATE_LONG && now - comm->shown >= DMA_STATE_LONG &&
           comm->row != &comm->proc->state.nowhere;
}

void dma_state_show_wait(dma_comm_t *comm, const dma_state_wait_t *wait, double now)
{
    dma_state_row_t *row = comm->row;

    comm->shown = now;
    begin_write(row);
    row->identity = comm->identity;
    row->wait = *wait;
    end_write(row);
}
