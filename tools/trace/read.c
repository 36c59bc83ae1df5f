/* Reads trace files. Their contents are checked: a file may have been left by a process that was killed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/trace/trace.h"

static bool fail(const char *path, const char *why)
{
    fprintf(stderr, "coll_dma_trace: %s: %s\n", path, why);
    return false;
}

/* ---- one file ---- */

void trace_clean_text(char *text)
{
    for (; *text; text++) {
        if (*text < 0x20 || *text > 0x7e || strchr("\"\\'`$", *text)) {
            *text = '?';
        }
    }
}

static void end_text(char *text, size_t bytes)
{
    text[bytes - 1] = '\0';
    trace_clean_text(text);
}

/* False: it is not the head of a trace, or it has another version. */
static bool copy_head(trace_file_t *file)
{
    dma_trace_head_t *head = &file->head;

    memcpy(head, file->map, sizeof(*head));
    end_text(head->job, sizeof(head->job));
    end_text(head->host, sizeof(head->host));
    end_text(head->clock, sizeof(head->clock));
    return head->magic == DMA_TRACE_MAGIC && head->event_bytes == sizeof(dma_trace_event_t) &&
           head->head_bytes >= sizeof(*head) && head->head_bytes % sizeof(dma_trace_event_t) == 0 &&
           head->head_bytes <= file->bytes && head->monotonic < TRACE_TIMES && head->realtime < INT64_MAX / 2;
}

static bool map_file(trace_file_t *file)
{
    int fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    void *map;

    if (fd < 0 || fstat(fd, &st)) {
        fail(file->path, strerror(errno));
        if (fd >= 0) {
            close(fd);
        }
        return false;
    }
    file->bytes = S_ISREG(st.st_mode) ? (size_t)st.st_size : 0;
    map = file->bytes >= DMA_TRACE_HEAD ? mmap(NULL, file->bytes, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    close(fd);
    if (map == MAP_FAILED) {
        return fail(file->path, "is not a trace");
    }
    file->map = map;
    if (!copy_head(file)) {
        munmap(map, file->bytes);
        return fail(file->path, "is not a trace, or one of another version");
    }
    file->events = (const dma_trace_event_t *)(const void *)((const char *)map + file->head.head_bytes);
    file->n = (file->bytes - file->head.head_bytes) / sizeof(*file->events);
    return true;
}

static bool read_file(trace_set_t *set, const char *dir, const char *name)
{
    trace_file_t *more = realloc(set->files, (set->n + 1) * sizeof(*more)), *file;
    size_t bytes = strlen(dir) + strlen(name) + 2;
    const char *why;

    if (!more) {
        return fail(name, "no memory");
    }
    set->files = more;
    file = &set->files[set->n];
    *file = (trace_file_t){.path = malloc(bytes)};
    if (!file->path) {
        return fail(name, "no memory");
    }
    snprintf(file->path, bytes, "%s/%s", dir, name);
    if (!map_file(file)) {
        free(file->path);
        return false;
    }
    set->n++;
    why = trace_find_calls(file);
    return !why || fail(name, why);
}

/* ---- all files ---- */

static int compare_files(const void *a, const void *b)
{
    const trace_file_t *f = a, *g = b;
    int order = strcmp(f->head.job, g->head.job);

    return order ? order : (f->head.rank > g->head.rank) - (f->head.rank < g->head.rank);
}

static bool ends_with_trace(const char *name)
{
    size_t n = strlen(name);

    return n > 6 && !strcmp(name + n - 6, ".trace");
}

static bool read_dir(trace_set_t *set, const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    bool good = true;

    if (!dir) {
        return fail(path, strerror(errno));
    }
    while (good && (entry = readdir(dir))) {
        good = !ends_with_trace(entry->d_name) || read_file(set, path, entry->d_name);
    }
    closedir(dir);
    return good;
}

bool trace_read(trace_set_t *set, char **dirs, int ndirs)
{
    *set = (trace_set_t){0};
    for (int i = 0; i < ndirs; i++) {
        if (!read_dir(set, dirs[i])) {
            return false;
        }
    }
    if (!set->n) {
        return fail(dirs[0], "there is no trace");
    }
    qsort(set->files, set->n, sizeof(*set->files), compare_files);
    return true;
}

void trace_free(trace_set_t *set)
{
    for (size_t i = 0; i < set->n; i++) {
        trace_file_t *file = &set->files[i];

        free(file->calls);
        free(file->comms);
        free(file->path);
        munmap(file->map, file->bytes);
    }
    free(set->files);
}
