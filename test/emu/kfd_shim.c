/* Preloaded where the node is emulated: rocminfo opens the driver's device file itself before it uses any library. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>

typedef int open_fn(const char *path, int flags, ...);

static const char *there(const char *path)
{
    return path && strcmp(path, "/dev/kfd") == 0 ? "/dev/null" : path;
}

__attribute__((visibility("default"))) int open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, int) : 0;
    va_end(args);
    return ((open_fn *)dlsym(RTLD_NEXT, "open"))(there(path), flags, mode);
}

__attribute__((visibility("default"))) int open64(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, int) : 0;
    va_end(args);
    return ((open_fn *)dlsym(RTLD_NEXT, "open64"))(there(path), flags, mode);
}
