/* Reads what a process says about itself, and what the kernel says about it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "dma/comm.h"
#include "tools/state/state.h"

#define TRIES 200 /* polls of a row that is being written; a millisecond apart */

/* A descriptor that another program gives this name may be anything: a pipe that would block us, or a file of somebody
 * else. */
static bool is_memory_of(int fd, int folder)
{
    struct stat memory, process;

    return !fstat(fd, &memory) && !fstat(folder, &process) && S_ISREG(memory.st_mode) &&
           memory.st_uid == process.st_uid;
}

/* Opens the process's descriptor `name` if it is such a memory. */
static int open_memory(int folder, const char *name)
{
    char target[sizeof("/memfd:" DMA_STATE_NAME) + 1] = "";
    ssize_t length = readlinkat(folder, name, target, sizeof(target) - 1);
    int fd;

    if (length < 0 || strncmp(target, "/memfd:" DMA_STATE_NAME, sizeof("/memfd:" DMA_STATE_NAME) - 1) != 0) {
        return -1;
    }
    fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd >= 0 && !is_memory_of(fd, folder)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static bool read_at(int fd, void *to, size_t bytes, off_t at)
{
    return pread(fd, to, bytes, at) == (ssize_t)bytes;
}

/* Text of another program: it must end somewhere, and must not control a terminal. */
static void clean(char *text, size_t room)
{
    text[room - 1] = '\0';
    for (; *text; text++) {
        if ((unsigned char)*text < ' ' || *text == 0x7f) {
            *text = '?';
        }
    }
}

/* Copies a row when two reads of its version are equal and even. */
static bool read_row(int fd, off_t at, state_comm_t *comm)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    uint32_t before, after;

    comm->torn = true;
    for (int i = 0; i < TRIES && comm->torn; i++) {
        if (i) {
            nanosleep(&pause, NULL);
        }
        if (!read_at(fd, &before, sizeof(before), at + (off_t)offsetof(dma_state_row_t, version))) {
            return false;
        }
        atomic_thread_fence(memory_order_acquire);
        if (!read_at(fd, &comm->row, sizeof(comm->row), at)) {
            return false;
        }
        atomic_thread_fence(memory_order_acquire);
        if (!read_at(fd, &after, sizeof(after), at + (off_t)offsetof(dma_state_row_t, version))) {
            return false;
        }
        comm->torn = before != after || before % 2;
    }
    clean(comm->row.name, sizeof(comm->row.name));
    clean(comm->row.reason, sizeof(comm->row.reason));
    clean(comm->row.wait.phase, DMA_PHASE_BYTES);
    if (!isfinite(comm->row.wait.since)) {
        comm->row.wait.since = 0;
    }
    comm->begun = atomic_load_explicit(&comm->row.begun, memory_order_relaxed);
    comm->completed = atomic_load_explicit(&comm->row.completed, memory_order_relaxed);
    return true;
}

static void read_rows(int fd, state_process_t *process)
{
    uint32_t rows = process->head.rows < DMA_STATE_ROWS ? process->head.rows : DMA_STATE_ROWS;

    process->comms = calloc(rows ? rows : 1, sizeof(*process->comms));
    for (uint32_t i = 0; process->comms && i < rows; i++) {
        state_comm_t *comm = &process->comms[process->ncomms];

        if (read_row(fd, DMA_STATE_HEAD + (off_t)i * DMA_STATE_ROW_BYTES, comm) && comm->row.state != DMA_COMM_NEW) {
            process->ncomms++;
        }
    }
}

bool state_of_process(pid_t pid, char *state, pid_t *parent)
{
    char path[64], text[1024] = "", *at;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    if (!(file = fopen(path, "re"))) {
        return false;
    }
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    /* the name of the program, field 2, may contain anything */
    at = strrchr(text, ')');
    return at && sscanf(at + 1, " %c %d", state, parent) == 2;
}

/* The number of a process in its own namespace, the last one of this line of /proc/PID/status; 0: the process is gone. */
static uint64_t own_number(pid_t pid)
{
    char path[64], line[512];
    uint64_t number = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    file = fopen(path, "re");
    while (file && !number && fgets(line, sizeof(line), file)) {
        if (!strncmp(line, "NSpid:", 6)) {
            number = strtoull(strrchr(line, '\t') + 1, NULL, 10);
        }
    }
    if (file) {
        fclose(file);
    }
    return number;
}

/* Is this the memory of the process itself? A child that it has forked has it too. */
static bool read_memory(int fd, state_process_t *process)
{
    if (!read_at(fd, &process->head, sizeof(process->head), 0) || process->head.magic != DMA_STATE_MAGIC ||
        process->head.pid != own_number(process->pid)) {
        return false;
    }
    clean(process->head.job, sizeof(process->head.job));
    read_rows(fd, process);
    return true;
}

static void search_descriptors(DIR *folder, state_process_t *process)
{
    struct dirent *entry;

    while (process->access == STATE_NONE && (entry = readdir(folder))) {
        int fd = open_memory(dirfd(folder), entry->d_name);

        if (fd >= 0) {
            process->access = read_memory(fd, process) ? STATE_READ : STATE_NONE;
            close(fd);
        }
    }
}

void state_read(pid_t pid, state_process_t *process)
{
    char path[64];
    struct stat st;
    DIR *folder;

    *process = (state_process_t){.pid = pid, .access = STATE_GONE};
    if (!state_of_process(pid, &process->kernel, &process->parent) || process->kernel == 'Z' ||
        process->kernel == 'X') {
        return;
    }
    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    process->owner = stat(path, &st) ? 0 : st.st_uid;
    folder = opendir(path);
    if (!folder) {
        process->access = errno == EACCES || errno == EPERM ? STATE_REFUSED : STATE_GONE;
        return;
    }
    process->access = STATE_NONE;
    search_descriptors(folder, process);
    closedir(folder);
}

void state_process_free(state_process_t *process)
{
    free(process->comms);
    process->comms = NULL;
}

const char *state_kernel_word(const state_process_t *process)
{
    switch (process->kernel) {
    case 'R':
        return "running";
    case 'S':
        return "sleeping";
    case 'D':
        return "waiting in the kernel";
    case 'T':
        return "stopped";
    case 't':
        return "stopped by a debugger";
    default:
        return "idle";
    }
}

const dma_state_wait_t *state_wait(const state_comm_t *comm)
{
    const dma_state_row_t *row = &comm->row;
    bool call = row->wait.call != 0;

    if (!row->wait.since || row->state == DMA_COMM_POISONED || call == (row->state == DMA_COMM_SETUP) ||
        (call && row->wait.call <= comm->completed)) {
        return NULL;
    }
    return &row->wait;
}
