/* This process; see process.h. */
#include "process.h"

#include "config.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>

enum { FRAMES = 32 };

static atomic_bool forked, used;
static atomic_uint acquired; /* bit mask of GPUs */

bool emu_is_gpu(uint32_t node)
{
    return node > 0 && node < emu_node_count();
}

static bool is_shown(int gpu)
{
    return gpu >= 0 && gpu < emu_config()->gpus && !(emu_config()->hidden >> gpu & 1);
}

uint32_t emu_node_count(void)
{
    uint32_t count = 1;
    for (int gpu = 0; gpu < emu_config()->gpus; gpu++)
        count += is_shown(gpu);
    return count;
}

uint32_t emu_node_of(int gpu)
{
    uint32_t node = 0;
    for (int before = 0; before <= gpu; before++)
        node += is_shown(before);
    return is_shown(gpu) ? node : 0;
}

int emu_gpu_of(uint32_t node)
{
    int gpu = 0;
    while (gpu < emu_config()->gpus && emu_node_of(gpu) != node)
        gpu++;
    return gpu;
}

const char *emu_process_caller(const void *address)
{
    Dl_info info;
    if (!dladdr(address, &info) || !info.dli_fname)
        return "?";
    const char *slash = strrchr(info.dli_fname, '/');
    return slash ? slash + 1 : info.dli_fname;
}

const char *emu_process_caller_of_thunk(void)
{
    void *frames[FRAMES];
    int count = backtrace(frames, FRAMES);
    const char *us = emu_process_caller((const void *)(uintptr_t)emu_process_caller_of_thunk);
    for (int i = 0; i < count; i++) {
        const char *name = emu_process_caller(frames[i]);
        if (strcmp(name, us) != 0 && strncmp(name, "libhsakmt.so", 12) != 0)
            return name;
    }
    return "?";
}

bool emu_process_is_runtime(const char *caller)
{
    return strncmp(caller, "libhsa-runtime64.so", 19) == 0;
}

/* A child has neither the thread of the engines nor the memory of its parent. */
static void in_child(void)
{
    acquired = 0;
    forked = true;
}

/* Raises the limit of open files, because every allocation has one. */
static void prepare(void)
{
    struct rlimit limit;
    pthread_atfork(NULL, NULL, in_child);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    used = true;
}

bool emu_process_forked(void)
{
    return forked;
}

void emu_process_acquire(int gpu)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, prepare);
    atomic_fetch_or(&acquired, 1u << gpu);
}

void emu_process_release(int gpu)
{
    atomic_fetch_and(&acquired, ~(1u << gpu));
}

bool emu_process_has(int gpu)
{
    return acquired >> gpu & 1;
}

bool emu_process_used(void)
{
    return used;
}
