/*
 * Takes shared memory away from coll/dma, and from nothing else. Preloaded: LD_PRELOAD=libnomem_shim.so with
 *
 *   DMA_NOMEM=WHAT[,WHAT...]   of memfd, fallocate, file, mmap: these calls fail for coll/dma's files;
 *                              read: process_vm_readv is not permitted
 *   DMA_NOMEM_RANK=RANK        only on this rank of the world
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static bool broken(const char *what)
{
    const char *list = getenv("DMA_NOMEM"), *only = getenv("DMA_NOMEM_RANK"), *rank = getenv("OMPI_COMM_WORLD_RANK");
    return list != NULL && rank != NULL && strstr(list, what) != NULL && (only == NULL || strcmp(only, rank) == 0);
}

static bool is_ours(int fd)
{
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t n = fd < 0 ? -1 : readlink(link, path, sizeof(path) - 1);
    path[n < 0 ? 0 : n] = '\0';
    return strstr(path, "coll_dma") != NULL;
}

static void *real(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

int memfd_create(const char *name, unsigned flags)
{
    if (strstr(name, "coll_dma") != NULL && broken("memfd")) {
        errno = EMFILE;
        return -1;
    }
    return (int)syscall(SYS_memfd_create, name, flags);
}

int posix_fallocate(int fd, off_t offset, off_t bytes)
{
    int (*next)(int, off_t, off_t) = (int (*)(int, off_t, off_t))real("posix_fallocate");
    return is_ours(fd) && broken("fallocate") ? ENOSPC : next(fd, offset, bytes);
}

int open(const char *path, int flags, ...)
{
    int (*next)(const char *, int, ...) = (int (*)(const char *, int, ...))real("open");
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
    va_end(args);
    if (strstr(path, "/coll_dma.") != NULL && broken("file")) {
        errno = EROFS;
        return -1;
    }
    return next(path, flags, mode);
}

void *mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    void *(*next)(void *, size_t, int, int, int, off_t) = (void *(*)(void *, size_t, int, int, int, off_t))real("mmap");
    if (fd >= 0 && is_ours(fd) && !(protection & PROT_EXEC) && flags & MAP_SHARED && broken("mmap")) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return next(address, bytes, protection, flags, fd, offset);
}

ssize_t process_vm_readv(pid_t pid, const struct iovec *local, unsigned long nlocal, const struct iovec *remote,
                         unsigned long nremote, unsigned long flags)
{
    if (broken("read")) {
        errno = EPERM;
        return -1;
    }
    return syscall(SYS_process_vm_readv, pid, local, nlocal, remote, nremote, flags);
}
