/* Reading tables of named constants: see fields.h. */
#include "plan/fields.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX_BYTES 4096
#define VALUE_MAX      (UINT64_C(1) << 40)

/* The state while a table is read. */
typedef struct parser {
    const char *const *names;
    size_t n;
    uint64_t values[DMA_FIELDS_MAX];
    bool seen[DMA_FIELDS_MAX];
} parser_t;

static bool is_rate(const char *name)
{
    size_t n = strlen(name);

    return n > 5 && !strcmp(name + n - 5, "_mbps");
}

static size_t field_find(const parser_t *r, const char *name)
{
    size_t i = 0;

    while (i < r->n && strcmp(r->names[i], name)) {
        i++;
    }
    return i;
}

/* Reads one line, without its comment. Returns NULL, or what is wrong with it. */
static const char *read_line(parser_t *r, char *line)
{
    char *save = NULL, *name = strtok_r(line, " \t\r", &save), *value = strtok_r(NULL, " \t\r", &save), *end;
    uint64_t v;
    size_t i;

    if (!name) {
        return NULL; /* empty */
    }
    if ((i = field_find(r, name)) == r->n) {
        return "unknown name";
    }
    if (r->seen[i]) {
        return "given twice";
    }
    if (!value || strtok_r(NULL, " \t\r", &save)) {
        return "expected one value";
    }
    errno = 0;
    v = strtoull(value, &end, 10);
    if (errno || *end || *value < '0' || *value > '9' || v > VALUE_MAX) {
        return "not an integer between 0 and 2^40";
    }
    if (!v && is_rate(name)) {
        return "a rate cannot be 0";
    }
    r->values[i] = v;
    r->seen[i] = true;
    return NULL;
}

static dma_status_t parse(const char *const *names, size_t n, const char *text, uint64_t *values, char *error,
                          size_t error_bytes)
{
    char copy[TEXT_MAX_BYTES], *next = copy;
    parser_t r = {.names = names, .n = n};

    if (strlen(text) >= sizeof(copy)) {
        snprintf(error, error_bytes, "longer than %d bytes", TEXT_MAX_BYTES - 1);
        return DMA_ERR_ARG;
    }
    strcpy(copy, text);
    for (int number = 1; next; number++) {
        char *line = strsep(&next, "\n");
        const char *wrong;

        line[strcspn(line, "#")] = '\0';
        if ((wrong = read_line(&r, line))) {
            snprintf(error, error_bytes, "line %d: %s", number, wrong);
            return DMA_ERR_ARG;
        }
    }
    for (size_t i = 0; i < n; i++) {
        if (!r.seen[i]) {
            snprintf(error, error_bytes, "%s is missing", names[i]);
            return DMA_ERR_ARG;
        }
    }
    memcpy(values, r.values, n * sizeof(*values));
    return DMA_OK;
}

dma_status_t dma_fields_load(const char *const *names, size_t n, const char *path, uint64_t *values, char *error,
                             size_t error_bytes)
{
    char text[TEXT_MAX_BYTES + 1]; /* one byte more than allowed, to detect longer files */
    FILE *file = fopen(path, "r");
    size_t bytes;

    if (!file) {
        snprintf(error, error_bytes, "%s", strerror(errno));
        return DMA_ERR_ARG;
    }
    bytes = fread(text, 1, sizeof(text), file);
    fclose(file);
    if (bytes == sizeof(text)) {
        snprintf(error, error_bytes, "longer than %d bytes", TEXT_MAX_BYTES - 1);
        return DMA_ERR_ARG;
    }
    text[bytes] = '\0';
    return parse(names, n, text, values, error, error_bytes);
}
