/* Small text files of sysfs: see topology_text.h. */
#include "engine/sdma/node/topology_text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

ssize_t dma_text_read_open(int fd, char *text, size_t size)
{
    size_t got = 0;
    ssize_t n = 0;

    while (got < size) {
        n = read(fd, text + got, size - got);
        if (n == 0 || (n < 0 && errno != EINTR)) {
            break;
        }
        got += n > 0 ? (size_t)n : 0;
    }
    if (n != 0 || got == size) {
        return -1;
    }
    text[got] = '\0';
    return (ssize_t)got;
}

bool dma_text_read(int dir, const char *path, char *text, size_t size)
{
    /* O_NONBLOCK: opening never waits, whatever kind of file it is */
    int fd = openat(dir, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t got;

    if (fd < 0) {
        return false;
    }
    got = dma_text_read_open(fd, text, size);
    close(fd);
    return got >= 0;
}

bool dma_text_number(const char *text, uint64_t max, uint64_t *value)
{
    uint64_t v = 0;
    const char *p = text;

    for (; *p >= '0' && *p <= '9'; p++) {
        uint64_t digit = (uint64_t)(*p - '0');
        if (v > (max - digit) / 10 || digit > max) {
            return false;
        }
        v = v * 10 + digit;
    }
    if (p == text || (*p == '\n' && p[1]) || (*p && *p != '\n')) {
        return false;
    }
    *value = v;
    return true;
}

bool dma_text_keys(char *text, dma_text_key_t *keys, size_t nkeys)
{
    char *next;

    for (char *line = strtok_r(text, "\n", &next); line; line = strtok_r(NULL, "\n", &next)) {
        char *number = strchr(line, ' ');
        if (!number) {
            continue;
        }
        *number++ = '\0';
        for (size_t i = 0; i < nkeys; i++) {
            if (!strcmp(line, keys[i].key)) {
                if (!dma_text_number(number, keys[i].max, &keys[i].value)) {
                    return false;
                }
                keys[i].found = true;
            }
        }
    }
    for (size_t i = 0; i < nkeys; i++) {
        if (keys[i].needed && !keys[i].found) {
            return false;
        }
    }
    return true;
}

static int ascending(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

int dma_text_numbers(int dir, const char *path, uint32_t *numbers, uint32_t max)
{
    uint32_t n = 0;
    int fd = openat(dir, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = fd < 0 ? NULL : fdopendir(fd);

    if (!entries) {
        if (fd >= 0) {
            close(fd);
        }
        return -1;
    }
    for (struct dirent *e = readdir(entries); e; e = readdir(entries)) {
        uint64_t number;
        if (!dma_text_number(e->d_name, UINT32_MAX, &number)) {
            continue;
        }
        if (n == max) {
            closedir(entries);
            return -1;
        }
        numbers[n++] = (uint32_t)number;
    }
    closedir(entries);
    qsort(numbers, n, sizeof(*numbers), ascending);
    return (int)n;
}
