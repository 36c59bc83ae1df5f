/* Opening, closing, and the topology snapshot that all callers of a process share; see api.h. */
#include "api.h"

#include "config.h"
#include "report.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>

enum { INTERFACE_MAJOR = 1, INTERFACE_MINOR = 17, NAME = 64 };

static struct {
    pthread_mutex_t lock;
    int opened;
    bool acquired, released, forked;
    char owner[NAME]; /* who took the snapshot */
} api = {.lock = PTHREAD_MUTEX_INITIALIZER};

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

const char *emu_api_caller(const void *address)
{
    Dl_info info;
    if (!dladdr(address, &info) || !info.dli_fname)
        return "?";
    const char *slash = strrchr(info.dli_fname, '/');
    return slash ? slash + 1 : info.dli_fname;
}

bool emu_api_is_runtime(const char *caller)
{
    return strncmp(caller, "libhsa-runtime64.so", 19) == 0;
}

HSAKMT_STATUS emu_api_enter(const char *function)
{
    pthread_mutex_lock(&api.lock);
    HSAKMT_STATUS status = api.opened ? HSAKMT_STATUS_SUCCESS : HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED;
    bool released = api.released;
    pthread_mutex_unlock(&api.lock);
    emu_trace("%s%s", function, status ? ": not open" : "");
    if (status == HSAKMT_STATUS_SUCCESS && released) {
        emu_violation("released", "%s after hsaKmtReleaseSystemProperties", function);
        status = HSAKMT_STATUS_ERROR;
    }
    return status;
}

/* A child has neither the thread of the engines nor the memory of its parent. */
static void in_child(void)
{
    api.opened = 0;
    api.forked = true;
}

bool emu_api_forked(void)
{
    return api.forked;
}

/* Every allocation holds a file, so there may be many. */
static void prepare_process(void)
{
    struct rlimit limit;
    pthread_atfork(NULL, NULL, in_child);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

HSAKMT_STATUS hsaKmtOpenKFD(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_mutex_lock(&api.lock);
    HSAKMT_STATUS status = api.forked   ? HSAKMT_STATUS_ERROR
                           : api.opened ? HSAKMT_STATUS_KERNEL_ALREADY_OPENED
                                        : HSAKMT_STATUS_SUCCESS;
    api.opened += !api.forked;
    bool first = api.opened == 1;
    pthread_mutex_unlock(&api.lock);
    if (first)
        pthread_once(&once, prepare_process);
    emu_trace("hsaKmtOpenKFD by %s", emu_api_caller(__builtin_return_address(0)));
    return status;
}

HSAKMT_STATUS hsaKmtCloseKFD(void)
{
    pthread_mutex_lock(&api.lock);
    HSAKMT_STATUS status = api.opened ? HSAKMT_STATUS_SUCCESS : HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED;
    api.opened -= api.opened > 0;
    pthread_mutex_unlock(&api.lock);
    return status;
}

HSAKMT_STATUS hsaKmtGetVersion(HsaVersionInfo *version)
{
    version->KernelInterfaceMajorVersion = INTERFACE_MAJOR;
    version->KernelInterfaceMinorVersion = INTERFACE_MINOR;
    return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtAcquireSystemProperties(HsaSystemProperties *properties)
{
    const char *caller = emu_api_caller(__builtin_return_address(0));
    pthread_mutex_lock(&api.lock);
    bool opened = api.opened, again = api.acquired && strncmp(api.owner, caller, NAME - 1) != 0;
    if (opened && !api.acquired)
        strncpy(api.owner, caller, NAME - 1);
    if (opened) {
        api.acquired = true;
        api.released = false;
    }
    pthread_mutex_unlock(&api.lock);
    if (!opened)
        return HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED;
    if (again)
        emu_note("%s replaces the topology snapshot of %s", caller, api.owner);
    memset(properties, 0, sizeof *properties);
    properties->NumNodes = emu_node_count();
    return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtReleaseSystemProperties(void)
{
    const char *caller = emu_api_caller(__builtin_return_address(0));
    pthread_mutex_lock(&api.lock);
    bool opened = api.opened, theirs = api.acquired && strncmp(api.owner, caller, NAME - 1) != 0;
    if (opened && api.acquired) {
        api.acquired = false;
        api.released = true;
    }
    pthread_mutex_unlock(&api.lock);
    if (!opened)
        return HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED;
    /* The snapshot has no count of its users. */
    if (theirs)
        emu_violation("released", "%s releases the topology snapshot that %s took", caller, api.owner);
    return HSAKMT_STATUS_SUCCESS;
}
