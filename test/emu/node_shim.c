/*
 * The kernel's door. This library is preloaded and contains the whole node. ROCm's own thunk runs, which is a library
 * (libhsakmt.so.1) or a part of ROCr. Accesses of ROCm to the driver are redirected:
 *
 *     /dev/kfd                            a file of file.h; calls go to kfd.c
 *     /dev/dri/renderD128, ...            a file of file.h; calls go to render.c, and mmap maps the memfd of the memory
 *     /sys/devices/virtual/kfd/kfd/topology, /sys/class/kfd/kfd/topology
 *                                         the folder EMU_SYSFS
 *     /sys/dev/char/226:N                 the folder drm/226:N beside EMU_SYSFS
 *     /sys/module/amdgpu                  the folder amdgpu beside EMU_SYSFS, by which rocminfo sees that there is a driver
 *     /sys/devices/system/node/nodeN/cpuN/cache
 *                                         the folder caches beside EMU_SYSFS, where the machine has none, as some virtual ones: the
 *                                         thunk would give up
 *
 * The C library serves all other files. Files of hidden GPUs (hide.h) exist and cannot be read.
 */
#include "config.h"
#include "exports.h"
#include "file.h"
#include "process.h"
#include "render.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define EXPORT   __attribute__((visibility("default")))
#define DRI      "/dev/dri/renderD"
#define NEXT(fn) ((__typeof__(&fn))dlsym(RTLD_NEXT, #fn))

/* Offsets of other files are smaller. */
#define OURS_FROM (1ull << 45)

enum { NONE = EMU_FILE_NONE, DRIVER = EMU_FILE_DRIVER };

static const struct {
    const char *prefix, *folder;
} moved[] = {
    {"/sys/devices/virtual/kfd/kfd/topology", ""},
    {"/sys/class/kfd/kfd/topology", ""},
    {"/sys/dev/char/226:", "/../drm/226:"},
    {"/sys/module/amdgpu", "/../amdgpu"},
};

/* How long the name of a processor's folder of caches is, if the path begins with one that does not exist. */
static size_t missing_caches(const char *path)
{
    char cache[PATH_MAX];
    int processor = 0;
    if (sscanf(path, "/sys/devices/system/node/node%*u/cpu%*u%n", &processor) < 0 || processor == 0 ||
        strncmp(path + processor, "/cache", 6) != 0)
        return 0;
    snprintf(cache, sizeof cache, "%.*s/cache", processor, path);
    return NEXT(access)(cache, F_OK) == 0 ? 0 : strlen(cache);
}

/* Returns the path, or its replacement in the node's folders. */
static const char *redirect(const char *path, char *room)
{
    const char *folder = getenv("EMU_SYSFS");
    for (size_t i = 0; path && folder && i < sizeof moved / sizeof *moved; i++) {
        size_t length = strlen(moved[i].prefix);
        if (strncmp(path, moved[i].prefix, length) == 0 &&
            snprintf(room, PATH_MAX, "%s%s%s", folder, moved[i].folder, path + length) < PATH_MAX)
            return room;
    }
    size_t length = path && folder ? missing_caches(path) : 0;
    if (length > 0 && snprintf(room, PATH_MAX, "%s/../caches%s", folder, path + length) < PATH_MAX)
        return room;
    return path;
}

static int device_at(const char *path)
{
    char rest;
    int minor;
    if (!path || strncmp(path, "/dev/", 5) != 0)
        return NONE;
    if (strcmp(path, "/dev/kfd") == 0)
        return DRIVER;
    if (sscanf(path, DRI "%d%c", &minor, &rest) != 1 || minor < EMU_RENDER_FIRST)
        return NONE;
    return minor - EMU_RENDER_FIRST < emu_config()->gpus ? minor - EMU_RENDER_FIRST : NONE;
}

static int open_device(int device, int flags)
{
    if (device != DRIVER && !emu_node_of(device)) {
        errno = EPERM;
        return -1;
    }
    return emu_file_open(device, flags);
}

/* Opens the node's files; other files are opened by the next function of this name. */
#define OPEN(name, parameters, ...)                                                                                    \
    EXPORT int name parameters                                                                                         \
    {                                                                                                                  \
        char room[PATH_MAX];                                                                                           \
        int device = device_at(path), mode = 0;                                                                        \
        if (device != NONE)                                                                                            \
            return open_device(device, flags);                                                                         \
        if (flags & (O_CREAT | O_TMPFILE)) {                                                                           \
            va_list args;                                                                                              \
            va_start(args, flags);                                                                                     \
            mode = va_arg(args, int);                                                                                  \
            va_end(args);                                                                                              \
        }                                                                                                              \
        path = redirect(path, room);                                                                                   \
        return NEXT(name)(__VA_ARGS__, mode);                                                                          \
    }
OPEN(open, (const char *path, int flags, ...), path, flags)
OPEN(open64, (const char *path, int flags, ...), path, flags)
OPEN(openat, (int at, const char *path, int flags, ...), at, path, flags)
OPEN(openat64, (int at, const char *path, int flags, ...), at, path, flags)

int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);

EXPORT int __open_2(const char *path, int flags)
{
    return open(path, flags);
}

EXPORT int __open64_2(const char *path, int flags)
{
    return open64(path, flags);
}

static ssize_t read_nothing(void *cookie, char *buffer, size_t bytes)
{
    (void)cookie;
    (void)buffer;
    (void)bytes;
    errno = EPERM;
    return -1;
}

static FILE *open_stream(const char *path, const char *mode, FILE *(*next)(const char *, const char *))
{
    char room[PATH_MAX];
    struct stat file;
    const char *moved_to = redirect(path, room);
    if (moved_to != path && NEXT(stat)(moved_to, &file) == 0 && S_ISDIR(file.st_mode))
        return fopencookie(NULL, "r", (cookie_io_functions_t){.read = read_nothing});
    return next(moved_to, mode);
}

EXPORT FILE *fopen(const char *path, const char *mode)
{
    return open_stream(path, mode, NEXT(fopen));
}

EXPORT FILE *fopen64(const char *path, const char *mode)
{
    return open_stream(path, mode, NEXT(fopen64));
}

EXPORT DIR *opendir(const char *path)
{
    char room[PATH_MAX];
    return NEXT(opendir)(redirect(path, room));
}

EXPORT int access(const char *path, int mode)
{
    char room[PATH_MAX];
    int device = device_at(path);
    if (device == NONE)
        return NEXT(access)(redirect(path, room), mode);
    errno = EPERM;
    return device == DRIVER || emu_node_of(device) ? 0 : -1;
}

EXPORT ssize_t readlink(const char *path, char *buffer, size_t bytes)
{
    char room[PATH_MAX];
    return NEXT(readlink)(redirect(path, room), buffer, bytes);
}

/* stat reports the files of devices as character devices. */
#define DRESS(file, device)                                                                                            \
    do {                                                                                                               \
        (file)->st_mode = S_IFCHR | 0666;                                                                              \
        (file)->st_rdev = (device) == DRIVER ? makedev(EMU_RENDER_MAJOR + 1, 0)                                        \
                                             : makedev(EMU_RENDER_MAJOR, EMU_RENDER_FIRST + (unsigned)(device));       \
    } while (0)

#define STAT(name, type)                                                                                               \
    EXPORT int name(const char *path, struct type *file)                                                               \
    {                                                                                                                  \
        char room[PATH_MAX];                                                                                           \
        int device = device_at(path);                                                                                  \
        if (device == NONE)                                                                                            \
            return NEXT(name)(redirect(path, room), file);                                                             \
        memset(file, 0, sizeof *file);                                                                                 \
        DRESS(file, device);                                                                                           \
        return 0;                                                                                                      \
    }
STAT(stat, stat)
STAT(stat64, stat64)
STAT(lstat, stat)
STAT(lstat64, stat64)

#define FSTAT(name, type)                                                                                              \
    EXPORT int name(int fd, struct type *file)                                                                         \
    {                                                                                                                  \
        int rc = NEXT(name)(fd, file), device = rc == 0 && S_ISREG(file->st_mode) ? emu_file_device(fd) : NONE;        \
        if (device != NONE)                                                                                            \
            DRESS(file, device);                                                                                       \
        return rc;                                                                                                     \
    }
FSTAT(fstat, stat)
FSTAT(fstat64, stat64)

EXPORT int ioctl(int fd, unsigned long request, ...)
{
    va_list args;
    va_start(args, request);
    void *argument = va_arg(args, void *);
    va_end(args);
    bool may_be = (_IOC_TYPE(request) == 'K' || _IOC_TYPE(request) == 'd') && _IOC_SIZE(request);
    int device = may_be ? emu_file_device(fd) : NONE;
    if (device == NONE)
        return (int)syscall(SYS_ioctl, fd, request, argument);
    int error = device == DRIVER ? emu_kfd_ioctl(__builtin_return_address(0), request, argument)
                                 : emu_render_ioctl(fd, device, request, argument);
    errno = error ? error : errno;
    return error ? -1 : 0;
}

EXPORT void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    if (fd < 0 || (uint64_t)offset < OURS_FROM || emu_file_device(fd) == NONE)
        return (void *)syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);
    return emu_kfd_map(at, bytes, protection, flags, (uint64_t)offset);
}

EXPORT void *mmap64(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
    __attribute__((alias("mmap")));
