/* The shared table of queue slots; see slots.h. */
#include "slots.h"

#include "config.h"
#include "persona.h"
#include "report.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ENGINES = 16, SLOTS = ENGINES * EMU_QUEUES_PER_ENGINE, PATH = 4096 };

/* The indices are the GPU, and engine * EMU_QUEUES_PER_ENGINE + place. 0: the slot is free. */
static _Atomic(uint64_t) (*table)[SLOTS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Returns start time and pid of a running process. 0: it has ended; a zombie counts as ended. */
static uint64_t stamp(uint32_t pid)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    size_t got = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[got] = '\0';
    /* The second field is the name in parentheses, which may have any characters. */
    const char *after = strrchr(text, ')');
    char state;
    unsigned long long start;
    const char *format = " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu";
    if (!after || sscanf(after + 1, format, &state, &start) != 2 || state == 'Z' || state == 'X')
        return 0;
    return (uint64_t)(uint32_t)start << 32 | pid;
}

/* Frees the slots of processes that have ended. */
static void reclaim(int gpu)
{
    for (int slot = 0; slot < SLOTS; slot++) {
        uint64_t holder = atomic_load(&table[gpu][slot]);
        if (holder && stamp((uint32_t)holder) != holder)
            atomic_compare_exchange_strong(&table[gpu][slot], &holder, 0);
    }
}

static void map_table(void)
{
    size_t bytes = sizeof(*table) * EMU_MAX_GPUS;
    const char *folder = emu_config()->node_dir;
    int fd = -1;
    if (folder) {
        char path[PATH];
        snprintf(path, sizeof path, "%s/slots", folder);
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0 || ftruncate(fd, (off_t)bytes)) {
            fprintf(stderr, "emulated node: cannot make %s\n", path);
            exit(2);
        }
    }
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    if (at == MAP_FAILED) {
        fprintf(stderr, "emulated node: no memory for its queue slots\n");
        exit(2);
    }
    table = at;
    for (int gpu = 0; gpu < EMU_MAX_GPUS; gpu++)
        reclaim(gpu);
}

static int try_take(int gpu, int first, int engines, int engine, uint32_t without, uint64_t mine)
{
    for (int i = 0; i < engines * EMU_QUEUES_PER_ENGINE; i++) {
        int at = first + i % engines;
        if (engine == EMU_ANY_ENGINE ? without >> at & 1 : at != engine)
            continue;
        int slot = at * EMU_QUEUES_PER_ENGINE + i / engines;
        uint64_t none = 0;
        if (atomic_compare_exchange_strong(&table[gpu][slot], &none, mine))
            return slot;
    }
    return -1;
}

int emu_slot_take(int gpu, bool xgmi, int engine, uint32_t without)
{
    pthread_once(&once, map_table);
    const struct emu_persona *persona = emu_config()->persona;
    int first = xgmi ? (int)persona->host_engines : 0;
    int engines = (int)(xgmi ? persona->xgmi_engines : persona->host_engines);
    uint64_t mine = stamp((uint32_t)getpid());
    int slot = try_take(gpu, first, engines, engine, without, mine);
    if (slot < 0) {
        reclaim(gpu);
        slot = try_take(gpu, first, engines, engine, without, mine);
    }
    return slot;
}

void emu_slot_release(int gpu, int slot)
{
    atomic_store(&table[gpu][slot], 0);
}

int emu_slot_engine(int slot)
{
    return slot / EMU_QUEUES_PER_ENGINE;
}
