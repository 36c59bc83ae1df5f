/* Lines on stderr and in the log file of this process; see report.h. */
#include "report.h"

#include "config.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE = 512 };

/* Writes a line by one call to a file that is opened for appending, so that lines of several threads do not mix. */
static void write_line(const char *line)
{
    const struct emu_config *config = emu_config();
    if (!config->log_dir)
        return;
    char path[LINE];
    snprintf(path, sizeof path, "%s/%d.log", config->log_dir, (int)getpid());
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    if (write(fd, line, strlen(line)) < 0)
        fprintf(stderr, "emulated node: cannot write %s\n", path);
    close(fd);
}

static void say(const char *kind, const char *rule, const char *format, va_list args, int loud)
{
    char text[LINE - 128], line[LINE];
    vsnprintf(text, sizeof text, format, args);
    snprintf(line, sizeof line, "%s: %s%s%s\n", kind, rule, *rule ? ": " : "", text);
    write_line(line);
    if (loud)
        fprintf(stderr, "emulated node [%d]: %s", (int)getpid(), line);
}

void emu_violation(const char *rule, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say("violation", rule, format, args, 1);
    va_end(args);
    if (emu_config()->strict)
        abort();
}

void emu_report(const char *rule, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say("violation", rule, format, args, 1);
    va_end(args);
}

void emu_note(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say("note", "", format, args, 0);
    va_end(args);
}

void emu_trace(const char *format, ...)
{
    if (!emu_config()->trace)
        return;
    va_list args;
    va_start(args, format);
    say("trace", "", format, args, !emu_config()->log_dir);
    va_end(args);
}
