/* Reading engine profiles. */
#include "plan/profile.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROFILE_MAX_BYTES 4096
#define PROFILE_MAX_VALUE (UINT64_C(1) << 40)

typedef struct field {
    const char *name;
    size_t offset;
} field_t;

static const field_t fields[] = {
#define FIELD(name, value, help) {#name, offsetof(dma_profile_t, name)},
    DMA_PROFILE_FIELDS(FIELD)
#undef FIELD
};
#define NFIELDS (sizeof(fields) / sizeof(fields[0]))

dma_profile_t dma_profile_default(void)
{
    return (dma_profile_t){
#define INIT(name, value, help) .name = (value),
        DMA_PROFILE_FIELDS(INIT)
#undef INIT
    };
}

static const field_t *field_find(const char *name)
{
    for (size_t i = 0; i < NFIELDS; i++) {
        if (!strcmp(fields[i].name, name)) {
            return &fields[i];
        }
    }
    return NULL;
}

static bool is_rate(const field_t *field)
{
    size_t n = strlen(field->name);

    return n > 5 && !strcmp(field->name + n - 5, "_mbps");
}

/* One line, without its comment, into *profile; NULL or what is wrong with it. */
static const char *parse_line(char *line, dma_profile_t *profile, uint64_t *seen)
{
    char *save = NULL, *name = strtok_r(line, " \t\r", &save), *value = strtok_r(NULL, " \t\r", &save), *end;
    const field_t *field;
    uint64_t v;

    if (!name) {
        return NULL; /* empty */
    }
    if (!(field = field_find(name))) {
        return "unknown name";
    }
    if (*seen & (UINT64_C(1) << (field - fields))) {
        return "given twice";
    }
    if (!value || strtok_r(NULL, " \t\r", &save)) {
        return "expected one value";
    }
    errno = 0;
    v = strtoull(value, &end, 10);
    if (errno || *end || *value < '0' || *value > '9' || v > PROFILE_MAX_VALUE) {
        return "not an integer between 0 and 2^40";
    }
    if (!v && is_rate(field)) {
        return "a rate cannot be 0";
    }
    memcpy((char *)profile + field->offset, &v, sizeof(v));
    *seen |= UINT64_C(1) << (field - fields);
    return NULL;
}

dma_status_t dma_profile_parse(const char *text, dma_profile_t *profile, char *error, size_t error_bytes)
{
    char copy[PROFILE_MAX_BYTES], *next = copy;
    dma_profile_t result = {0};
    uint64_t seen = 0;

    if (strlen(text) >= sizeof(copy)) {
        snprintf(error, error_bytes, "longer than %d bytes", PROFILE_MAX_BYTES - 1);
        return DMA_ERR_ARG;
    }
    strcpy(copy, text);
    for (int number = 1; next; number++) {
        char *line = strsep(&next, "\n");
        const char *wrong;

        line[strcspn(line, "#")] = '\0';
        if ((wrong = parse_line(line, &result, &seen))) {
            snprintf(error, error_bytes, "line %d: %s", number, wrong);
            return DMA_ERR_ARG;
        }
    }
    for (size_t i = 0; i < NFIELDS; i++) {
        if (!(seen & (UINT64_C(1) << i))) {
            snprintf(error, error_bytes, "%s is missing", fields[i].name);
            return DMA_ERR_ARG;
        }
    }
    *profile = result;
    return DMA_OK;
}

dma_status_t dma_profile_load(const char *path, dma_profile_t *profile, char *error, size_t error_bytes)
{
    char text[PROFILE_MAX_BYTES + 1]; /* one byte more than may be: a longer file is refused, not cut */
    FILE *file = fopen(path, "r");
    size_t n;

    if (!file) {
        snprintf(error, error_bytes, "%s", strerror(errno));
        return DMA_ERR_ARG;
    }
    n = fread(text, 1, sizeof(text), file);
    fclose(file);
    if (n == sizeof(text)) {
        snprintf(error, error_bytes, "longer than %d bytes", PROFILE_MAX_BYTES - 1);
        return DMA_ERR_ARG;
    }
    text[n] = '\0';
    return dma_profile_parse(text, profile, error, error_bytes);
}
