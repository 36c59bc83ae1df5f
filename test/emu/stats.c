/*
 * Statistics for tests. They are written to EMU_STATS/PID when the process ends, also if a runtime has not destroyed its
 * queues, and by emu_stats_dump at any time. Queues that exist at the end are reported, too.
 */
#include "config.h"
#include "exports.h"
#include "machine.h"
#include "process.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

enum { PATH = 4096 };

int emu_stats_dump(const char *path)
{
    FILE *file = fopen(path, "we");
    if (!file)
        return -errno;
    emu_machine_lock();
    emu_machine_print(file);
    emu_machine_unlock();
    return fclose(file) ? -errno : 0;
}

/* This destructor runs last, because this library was loaded first. */
__attribute__((destructor)) static void at_exit(void)
{
    if (emu_process_forked() || !emu_process_used())
        return;
    const char *folder = emu_config()->stats_dir;
    char path[PATH];
    if (folder) {
        snprintf(path, sizeof path, "%s/%d", folder, (int)getpid());
        int error = emu_stats_dump(path);
        if (error)
            fprintf(stderr, "emulated node: cannot write %s\n", path);
    }
    emu_machine_lock();
    emu_machine_report_left();
    emu_machine_unlock();
}
