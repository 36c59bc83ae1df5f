/* The record of what has been proven: see record.h. */
#include "engine/sdma/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/sdma/topology_text.h"

#define HEAD "coll-dma-record 1"
#define LINE 256 /* bytes of a line, more than any that is printed */

/* The lines of a section that are neither features nor "end". The first KEYS of them are the key. */
static const struct {
    const char *name;
    size_t at;
    size_t bytes; /* of a text; 0: a number */
    const char *format;
} fields[] = {
#define NUMBER(name, member, format)                                                                                   \
    {                                                                                                                  \
        name, offsetof(dma_record_section_t, member), 0, format                                                        \
    }
#define TEXT(name, member)                                                                                             \
    {                                                                                                                  \
        name, offsetof(dma_record_section_t, member), sizeof(((dma_record_section_t *)NULL)->member), NULL             \
    }
    NUMBER("gfx", key.version, "%u"),
    NUMBER("device", key.device_id, "0x%04x"),
    NUMBER("xccs", key.xccs, "%u"),
    NUMBER("firmware", key.firmware, "%u"),
    TEXT("kernel", key.kernel),
    TEXT("driver", key.driver),
    TEXT("rocr", key.rocr),
    TEXT("provider", key.provider),
    TEXT("host", host),
    TEXT("date", date),
#undef NUMBER
#undef TEXT
};
#define COUNT(table) (sizeof(table) / sizeof((table)[0]))
#define KEYS         8

static const char *const features[DMA_RECORD_FEATURES] = {"copy", "timestamp", "strides",  "broadcast",
                                                          "swap", "poll",      "prelaunch"};
static const char *const states[] = {"not tried", "proven", "failed"};

_Static_assert(COUNT(fields) + DMA_RECORD_FEATURES < 32, "a bit for each line of a section");

/* The state of a parser. */
typedef struct record_parser {
    dma_record_t *record;
    unsigned line;
    bool headed;   /* the first line was there */
    bool inside;   /* a section has begun and not ended */
    uint32_t seen; /* its lines so far: bit i is fields[i], or feature i - COUNT(fields) */
    size_t room;   /* sections that fit into the memory */
    dma_record_section_t section;
} record_parser_t;

const char *dma_record_feature_name(dma_record_feature_t feature)
{
    return features[feature];
}

void dma_record_free(dma_record_t *record)
{
    free(record->sections);
    *record = (dma_record_t){0};
}

/* ---- reading ---- */

/* A number of a field is decimal, or hexadecimal with 0x. */
static bool parse_number(const char *text, uint32_t *value)
{
    bool hex = text[0] == '0' && text[1] == 'x';
    char *end;
    unsigned long v;

    if (strspn(text, hex ? "0123456789abcdefx" : "0123456789") != strlen(text) || strlen(text) > 10 || !text[0]) {
        return false;
    }
    v = strtoul(text, &end, hex ? 16 : 10);
    *value = (uint32_t)v;
    return !*end && v <= UINT32_MAX;
}

static bool parse_field(size_t i, const char *text, dma_record_section_t *section)
{
    char *member = (char *)section + fields[i].at;
    size_t length = strlen(text);

    if (!fields[i].bytes) {
        return parse_number(text, (uint32_t *)(void *)member);
    }
    if (length == 0 || length >= fields[i].bytes || strchr(text, ' ')) {
        return false;
    }
    memcpy(member, text, length + 1);
    return true;
}

/* "proven", "failed: REASON", "not tried", or "not tried: REASON" */
static bool parse_result(const char *text, dma_record_result_t *result)
{
    for (size_t i = 0; i < COUNT(states); i++) {
        size_t n = strlen(states[i]);
        const char *reason = text + n;

        if (strncmp(text, states[i], n)) {
            continue;
        }
        result->state = (dma_record_state_t)i;
        result->reason[0] = '\0';
        if (!*reason) {
            return i != DMA_RECORD_FAILED;
        }
        if (i == DMA_RECORD_PROVEN || strncmp(reason, ": ", 2) || !reason[2] ||
            strlen(reason + 2) >= sizeof(result->reason)) {
            return false;
        }
        memcpy(result->reason, reason + 2, strlen(reason + 2) + 1);
        return true;
    }
    return false;
}

static const char *begin_section(record_parser_t *p)
{
    if (p->inside) {
        return "a section begins in another one";
    }
    p->inside = true;
    p->seen = 0;
    p->section = (dma_record_section_t){0};
    return NULL;
}

static const char *end_section(record_parser_t *p)
{
    dma_record_t *r = p->record;

    if (!p->inside || p->seen != (1u << (COUNT(fields) + DMA_RECORD_FEATURES)) - 1) {
        return p->inside ? "the section is not complete" : "no section has begun";
    }
    if (r->n == DMA_RECORD_MAX) {
        return "there are too many sections";
    }
    if (r->n == p->room) {
        size_t room = p->room ? 2 * p->room : 4;
        dma_record_section_t *more = realloc(r->sections, room * sizeof(*more));

        if (!more) {
            return "no memory";
        }
        r->sections = more;
        p->room = room;
    }
    r->sections[r->n++] = p->section;
    p->inside = false;
    return NULL;
}

/* A line "NAME VALUE" of a section. */
static const char *add_line(record_parser_t *p, const char *name, const char *value)
{
    size_t i = 0, nfields = COUNT(fields);

    while (i < nfields + DMA_RECORD_FEATURES &&
           strcmp(name, i < nfields ? fields[i].name : features[i - nfields]) != 0) {
        i++;
    }
    if (!p->inside || i == nfields + DMA_RECORD_FEATURES) {
        return p->inside ? "there is no such name" : "it belongs to no section";
    }
    if (p->seen >> i & 1) {
        return "the name comes twice";
    }
    p->seen |= 1u << i;
    if (i < nfields) {
        return parse_field(i, value, &p->section) ? NULL : "the value is not as it must be";
    }
    return parse_result(value, &p->section.results[i - nfields])
               ? NULL
               : "neither \"proven\" nor \"failed: REASON\" nor \"not tried\"";
}

/* A line without its end. Returns what is wrong with it, or NULL. */
static const char *add(record_parser_t *p, char *line)
{
    char *name = line + strspn(line, " \t"), *value;
    size_t length = strlen(name);

    while (length && (name[length - 1] == ' ' || name[length - 1] == '\t')) {
        name[--length] = '\0';
    }
    if (!p->headed) {
        p->headed = true;
        return strcmp(name, HEAD) ? "it does not begin with \"" HEAD "\"" : NULL;
    }
    if (!name[0] || name[0] == '#') {
        return NULL;
    }
    if (!strcmp(name, "section")) {
        return begin_section(p);
    }
    if (!strcmp(name, "end")) {
        return end_section(p);
    }
    value = name + strcspn(name, " \t");
    if (*value) {
        *value++ = '\0';
        value += strspn(value, " \t");
    }
    return add_line(p, name, value);
}

static bool is_plain(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if ((text[i] < ' ' && text[i] != '\t') || text[i] > '~') {
            return false;
        }
    }
    return true;
}

/* The next line of the text, copied, so that each ends with a 0. */
static const char *next_line(record_parser_t *p, const char *text, size_t bytes, size_t *used)
{
    const char *end = memchr(text, '\n', bytes);
    size_t length = end ? (size_t)(end - text) : bytes;
    char line[LINE];

    p->line++;
    *used = length + (end ? 1 : 0);
    if (length >= sizeof(line) || !is_plain(text, length)) {
        return length >= sizeof(line) ? "it is too long" : "it is not plain text";
    }
    memcpy(line, text, length);
    line[length] = '\0';
    return add(p, line);
}

dma_status_t dma_record_parse(const char *text, size_t bytes, dma_record_t *record, char *why)
{
    record_parser_t p = {.record = record};
    const char *wrong = NULL;
    size_t used;

    *record = (dma_record_t){0};
    for (size_t at = 0; at < bytes && !wrong; at += used) {
        wrong = next_line(&p, text + at, bytes - at, &used);
    }
    if (!wrong && (!p.headed || p.inside)) {
        wrong = p.headed ? "the last section has no end" : "the file is empty";
    }
    if (wrong) {
        snprintf(why, DMA_RECORD_WHY_BYTES, "line %u: %s", p.line, wrong);
        dma_record_free(record);
        return DMA_ERR_ARG;
    }
    return DMA_OK;
}

/* Why an open file is not trusted, or NULL. */
static const char *distrust(int fd)
{
    struct stat st;

    if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
        return "it is not a regular file";
    }
    if (st.st_uid != 0 && st.st_uid != geteuid()) {
        return "it belongs neither to root nor to the user";
    }
    return st.st_mode & (S_IWGRP | S_IWOTH) ? "others than its owner may write it" : NULL;
}

dma_status_t dma_record_load(const char *path, dma_record_t *record, char *why)
{
    /* O_NONBLOCK: opening never waits, whatever kind of file it is */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    const char *wrong = fd < 0 ? strerror(errno) : distrust(fd);
    char *text = wrong ? NULL : malloc(DMA_RECORD_MAX_BYTES);
    dma_status_t status = DMA_UNSUPPORTED;
    ssize_t bytes;

    if (!wrong && !text) {
        wrong = "no memory";
    } else if (!wrong && (bytes = dma_text_read_open(fd, text, DMA_RECORD_MAX_BYTES)) < 0) {
        wrong = "it cannot be read, or is too large";
    } else if (!wrong) {
        status = dma_record_parse(text, (size_t)bytes, record, why);
    }
    if (wrong) {
        snprintf(why, DMA_RECORD_WHY_BYTES, "%s", wrong);
    }
    free(text);
    if (fd >= 0) {
        close(fd);
    }
    return status;
}

/* ---- finding ---- */

static bool is_equal(size_t i, const dma_record_key_t *a, const dma_record_key_t *b)
{
    const char *x = (const char *)a + fields[i].at, *y = (const char *)b + fields[i].at;

    return fields[i].bytes ? !strcmp(x, y) : !memcmp(x, y, sizeof(uint32_t));
}

static void print_value(size_t i, const void *from, char *text, size_t bytes)
{
    const char *member = (const char *)from + fields[i].at;

    if (fields[i].bytes) {
        snprintf(text, bytes, "%s", member);
    } else {
        uint32_t value;

        memcpy(&value, member, sizeof(value));
        snprintf(text, bytes, fields[i].format, value);
    }
}

_Static_assert(offsetof(dma_record_section_t, key) == 0, "a key has its fields where a section has them");

/* The number of fields that differ; *first is the first of them. */
static unsigned count_differences(const dma_record_key_t *a, const dma_record_key_t *b, size_t *first)
{
    unsigned n = 0;

    for (size_t i = KEYS; i-- > 0;) {
        if (!is_equal(i, a, b)) {
            *first = i;
            n++;
        }
    }
    return n;
}

static void explain(const dma_record_t *record, const dma_record_key_t *key, char *why)
{
    const dma_record_section_t *nearest = NULL;
    unsigned least = UINT32_MAX;
    char here[64], there[64];
    size_t field = 0;

    for (size_t i = 0; i < record->n; i++) {
        size_t first = 0;
        unsigned n = count_differences(key, &record->sections[i].key, &first);

        if (n < least) {
            least = n;
            nearest = &record->sections[i];
            field = first;
        }
    }
    if (!nearest) {
        snprintf(why, DMA_RECORD_WHY_BYTES, "it has no section");
        return;
    }
    print_value(field, key, here, sizeof(here));
    print_value(field, nearest, there, sizeof(there));
    snprintf(why, DMA_RECORD_WHY_BYTES, "no section is about this GPU: its %s is %s, that of the section of %s is %s",
             fields[field].name, here, nearest->host, there);
}

dma_status_t dma_record_find(const dma_record_t *record, const dma_record_key_t *key,
                             dma_record_result_t results[DMA_RECORD_FEATURES], char *why)
{
    bool found = false;
    size_t first;

    for (size_t i = 0; i < record->n; i++) {
        const dma_record_section_t *s = &record->sections[i];

        if (count_differences(key, &s->key, &first)) {
            continue;
        }
        for (int f = 0; f < DMA_RECORD_FEATURES; f++) {
            /* the order of the states: a failure counts more than a proof, a proof more than nothing */
            if (!found || s->results[f].state > results[f].state) {
                results[f] = s->results[f];
            }
        }
        found = true;
    }
    if (!found) {
        explain(record, key, why);
    }
    return found ? DMA_OK : DMA_UNSUPPORTED;
}

/* ---- writing ---- */

void dma_record_print_head(FILE *to)
{
    fprintf(
        to,
        "%s\n# What coll_dma_accept has proven. A job uses a section only if its key, from gfx to provider, is that "
        "of the GPU.\n",
        HEAD);
}

void dma_record_print(const dma_record_section_t *section, FILE *to)
{
    char text[64];

    fprintf(to, "\nsection\n");
    for (size_t i = 0; i < COUNT(fields); i++) {
        print_value(i, section, text, sizeof(text));
        fprintf(to, "    %-10s %s\n", fields[i].name, text);
    }
    for (int f = 0; f < DMA_RECORD_FEATURES; f++) {
        const dma_record_result_t *r = &section->results[f];

        fprintf(to, "    %-10s %s%s%s\n", features[f], states[r->state], r->reason[0] ? ": " : "", r->reason);
    }
    fprintf(to, "end\n");
}
