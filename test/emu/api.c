/* Opens and closes the thunk, and keeps the topology snapshot that all callers in a process share; see api.h. */
#include "api.h"

#include "config.h"
#include "report.h"

#include <pthread.h>
#include <string.h>

enum { INTERFACE_MAJOR = 1, INTERFACE_MINOR = 17, NAME = 64 };

static struct {
    pthread_mutex_t lock;
    int opened;
    bool acquired, released;
    char owner[NAME]; /* the library that took the snapshot */
} api = {.lock = PTHREAD_MUTEX_INITIALIZER};

HSAKMT_STATUS emu_api_enter(const char *function)
{
    pthread_mutex_lock(&api.lock);
    HSAKMT_STATUS status =
        api.opened && !emu_process_forked() ? HSAKMT_STATUS_SUCCESS : HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED;
    bool released = api.released;
    pthread_mutex_unlock(&api.lock);
    emu_trace("%s%s", function, status ? ": not open" : "");
    if (status == HSAKMT_STATUS_SUCCESS && released) {
        emu_violation("released", "%s after hsaKmtReleaseSystemProperties", function);
        status = HSAKMT_STATUS_ERROR;
    }
    return status;
}

HSAKMT_STATUS hsaKmtOpenKFD(void)
{
    pthread_mutex_lock(&api.lock);
    /* A child does not inherit the node of its parent. */
    HSAKMT_STATUS status = emu_process_forked() ? HSAKMT_STATUS_ERROR
                           : api.opened         ? HSAKMT_STATUS_KERNEL_ALREADY_OPENED
                                                : HSAKMT_STATUS_SUCCESS;
    api.opened = emu_process_forked() ? 0 : api.opened + 1;
    bool first = api.opened == 1;
    pthread_mutex_unlock(&api.lock);
    for (int gpu = 0; first && gpu < emu_config()->gpus; gpu++)
        if (emu_node_of(gpu))
            emu_process_acquire(gpu);
    emu_trace("hsaKmtOpenKFD by %s", emu_process_caller(__builtin_return_address(0)));
    return status;
}

HSAKMT_STATUS hsaKmtCloseKFD(void)
{
    pthread_mutex_lock(&api.lock);
    bool opened = api.opened && !emu_process_forked();
    api.opened -= opened;
    bool last = opened && api.opened == 0;
    pthread_mutex_unlock(&api.lock);
    for (int gpu = 0; last && gpu < emu_config()->gpus; gpu++)
        emu_process_release(gpu);
    return opened ? HSAKMT_STATUS_SUCCESS : HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED;
}

HSAKMT_STATUS hsaKmtGetVersion(HsaVersionInfo *version)
{
    version->KernelInterfaceMajorVersion = INTERFACE_MAJOR;
    version->KernelInterfaceMinorVersion = INTERFACE_MINOR;
    return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtAcquireSystemProperties(HsaSystemProperties *properties)
{
    const char *caller = emu_process_caller(__builtin_return_address(0));
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
    const char *caller = emu_process_caller(__builtin_return_address(0));
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
