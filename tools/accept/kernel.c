/* The kernel's log: see accept.h. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "tools/accept/accept.h"

void accept_kernel_open(accept_kernel_t *kernel, const char *path)
{
    *kernel = (accept_kernel_t){.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    if (kernel->fd >= 0) {
        (void)lseek(kernel->fd, 0, SEEK_END); /* what was before is nobody's fault here */
    }
}

/* Whether a line of the driver says that something is broken. */
static bool is_bad(const char *line)
{
    static const char *const words[] = {"reset",   "fault",  "hang",          "hung",     "preemption failed",
                                        "timeout", "wedged", "uncorrectable", "timed out"};
    bool bad = false;

    if (!strcasestr(line, "amdgpu") && !strcasestr(line, "kfd")) {
        return false;
    }
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        bad = bad || strcasestr(line, words[i]);
    }
    return bad;
}

/* Looks at the whole lines of the buffer and keeps the rest. */
static bool look(accept_kernel_t *kernel, char line[ACCEPT_TEXT])
{
    char *at = kernel->part, *end;
    bool bad = false;

    for (; (end = memchr(at, '\n', kernel->bytes - (size_t)(at - kernel->part))); at = end + 1) {
        const char *text;

        *end = '\0';
        text = strchr(at, ';'); /* in front of it: priority, number, time */
        text = text ? text + 1 : at;
        if (!bad && is_bad(text)) {
            bad = true;
            snprintf(line, ACCEPT_TEXT, "%.*s", ACCEPT_TEXT - 1, text);
        }
    }
    kernel->bytes -= (size_t)(at - kernel->part);
    memmove(kernel->part, at, kernel->bytes);
    if (kernel->bytes == sizeof(kernel->part)) {
        kernel->bytes = 0; /* a line of this length is not the driver's */
    }
    return bad;
}

bool accept_kernel_read(accept_kernel_t *kernel, char line[ACCEPT_TEXT])
{
    bool bad = false;
    char other[ACCEPT_TEXT];

    while (kernel->fd >= 0) {
        ssize_t n = read(kernel->fd, kernel->part + kernel->bytes, sizeof(kernel->part) - kernel->bytes);

        if (n < 0 && (errno == EPIPE || errno == EINTR)) {
            continue; /* EPIPE: lines were lost, because the kernel wrote more than it keeps */
        }
        if (n <= 0) {
            break;
        }
        kernel->bytes += (size_t)n;
        bad = look(kernel, bad ? other : line) || bad;
    }
    return bad;
}
