/* The driver's files; see file.h. */
#include "file.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DRIVER "emu-dev-kfd"
#define RENDER "emu-dev-render"

int emu_file_open(int device, int flags)
{
    char name[32];
    snprintf(name, sizeof name, device == EMU_FILE_DRIVER ? DRIVER : RENDER "%d", device);
    return memfd_create(name, flags & O_CLOEXEC ? MFD_CLOEXEC : 0);
}

int emu_file_device(int fd)
{
    char path[64], name[128];
    int gpu;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(path, name, sizeof name - 1);
    if (length < 0)
        return EMU_FILE_NONE;
    name[length] = '\0';
    if (strstr(name, "memfd:" DRIVER))
        return EMU_FILE_DRIVER;
    return sscanf(name, "/memfd:" RENDER "%d", &gpu) == 1 ? gpu : EMU_FILE_NONE;
}

/* Uses statx, because the preloaded library replaces fstat by a function that calls this one. */
uint64_t emu_file_number(int fd)
{
    struct statx file;
    return syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_INO, &file) == 0 ? file.stx_ino : 0;
}
