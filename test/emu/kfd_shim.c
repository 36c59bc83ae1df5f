/*
 * Preloaded at the thunk's door: replaces /dev/kfd, which rocminfo opens before it uses any library, and with which queues can
 * be created without the thunk.
 *
 * The open file is an empty memfd with a special name. Calls on it go to the emulated thunk (kfd.c) if it is loaded. Without a
 * runtime there is no address space, so they would fail anyway.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define NAME   "emu-dev-kfd"

/* Offsets of doorbells have these bits. Offsets of other files do not. */
#define DOORBELLS (3ull << 62)

typedef int open_fn(const char *path, int flags, ...);
typedef int ioctl_fn(const void *caller, unsigned long request, void *argument);
typedef void *map_fn(void *at, size_t bytes, int protection, int flags, uint64_t offset);

static bool is_device(const char *path)
{
    return path && strcmp(path, "/dev/kfd") == 0;
}

static int open_device(int flags)
{
    return memfd_create(NAME, flags & O_CLOEXEC ? MFD_CLOEXEC : 0);
}

static bool is_open_device(int fd)
{
    char path[64], name[PATH_MAX];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(path, name, sizeof name - 1);
    if (length < 0)
        return false;
    name[length] = '\0';
    return strstr(name, "memfd:" NAME) != NULL;
}

/* Returns a function of the emulated thunk, which the runtime may have loaded with RTLD_LOCAL. */
static void *of_thunk(const char *name)
{
    void *library = dlopen("libhsakmt.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (!library)
        return NULL;
    void *found = dlsym(library, name);
    dlclose(library);
    return found;
}

EXPORT int open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, int) : 0;
    va_end(args);
    return is_device(path) ? open_device(flags) : ((open_fn *)dlsym(RTLD_NEXT, "open"))(path, flags, mode);
}

EXPORT int open64(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, int) : 0;
    va_end(args);
    return is_device(path) ? open_device(flags) : ((open_fn *)dlsym(RTLD_NEXT, "open64"))(path, flags, mode);
}

EXPORT int ioctl(int fd, unsigned long request, ...)
{
    va_list args;
    va_start(args, request);
    void *argument = va_arg(args, void *);
    va_end(args);
    if (_IOC_TYPE(request) != 'K' || !_IOC_SIZE(request) || !is_open_device(fd))
        return (int)syscall(SYS_ioctl, fd, request, argument);
    ioctl_fn *serve = (ioctl_fn *)of_thunk("emu_kfd_ioctl");
    int error = serve ? serve(__builtin_return_address(0), request, argument) : ESRCH;
    errno = error ? error : errno;
    return error ? -1 : 0;
}

EXPORT void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    if (fd < 0 || ((uint64_t)offset & DOORBELLS) != DOORBELLS || !is_open_device(fd))
        return (void *)syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);
    map_fn *map = (map_fn *)of_thunk("emu_kfd_map");
    errno = EINVAL;
    return map ? map(at, bytes, protection, flags, (uint64_t)offset) : MAP_FAILED;
}

EXPORT void *mmap64(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
    __attribute__((alias("mmap")));
