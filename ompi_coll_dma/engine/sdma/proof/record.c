/* The record of what has been proven: see record.h. */
#include "engine/sdma/proof/record.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "engine/sdma/node/topology_text.h"
#include "gpu/internal.h"

#define HEAD "coll-dma-record 1"
#define LINE 256 /* bytes of a line, more than any that is printed */

/* The lines of a section: its words, then its results. */
enum { LINES = DMA_RECORD_WORDS + DMA_RECORD_FEATURES };
static const char *const names[LINES] = {"gfx",     "device",    "xccs", "firmware", "kernel",   "driver",
                                         "rocr",    "provider",  "host", "date",     "copy",     "timestamp",
                                         "strides", "broadcast", "swap", "poll",     "prelaunch"};
static const char *const states[] = {"not tried", "proven", "failed"};

#define DRIVER_VERSION "/sys/module/amdgpu/version" /* only of a driver that does not belong to the kernel */

/* Attributes of hsa_system_get_info. */
#define ROCR_MAJOR 0u     /* a uint16_t */
#define ROCR_MINOR 1u     /* the same */
#define ROCR_BUILD 0x200u /* a const char * */

const char *dma_record_feature_name(dma_record_feature_t feature)
{
    return names[DMA_RECORD_WORDS + feature];
}

void dma_record_free(dma_record_t *record)
{
    free(record->sections);
    *record = (dma_record_t){0};
}

/* ---- the key of a GPU ---- */

/* Copies a word: what is not printable becomes "_", and nothing becomes "-". */
static void put_word(dma_record_text_t word, const char *text)
{
    size_t n = strcspn(text, "\n");

    n = n < sizeof(dma_record_text_t) ? n : sizeof(dma_record_text_t) - 1;
    for (size_t i = 0; i < n; i++) {
        word[i] = '_';
        if (text[i] > ' ' && text[i] <= '~') {
            word[i] = text[i];
        }
    }
    if (n == 0) {
        word[0] = '-';
    }
}

static void read_rocr(dma_record_text_t word)
{
    static const char *const names[] = {"libhsa-runtime64.so.1", "libhsa-runtime64.so", NULL};
    static const dma_gpu_symbol_t symbol = {"hsa_system_get_info", true};
    uint32_t (*system_info)(uint32_t attribute, void *value);
    void *library = dma_gpu_find_library(names);
    uint16_t major, minor;
    const char *build = NULL;
    char text[128] = "";

    if (library && dma_gpu_find_symbols(library, &symbol, 1, &system_info) && !system_info(ROCR_MAJOR, &major) &&
        !system_info(ROCR_MINOR, &minor)) {
        snprintf(text, sizeof(text), "%u.%u-%s", major, minor, !system_info(ROCR_BUILD, &build) && build ? build : "");
    }
    put_word(word, text);
    if (library) {
        dlclose(library);
    }
}

void dma_record_key_read(const dma_topo_gpu_t *gpu, const char *provider, dma_record_key_t *key)
{
    struct utsname kernel = {.release = ""};
    char driver[128];

    *key = (dma_record_key_t){0};
    snprintf(key->words[DMA_RECORD_GFX], sizeof(dma_record_text_t), "%u", gpu->version);
    snprintf(key->words[DMA_RECORD_DEVICE], sizeof(dma_record_text_t), "0x%04x", gpu->device_id);
    snprintf(key->words[DMA_RECORD_XCCS], sizeof(dma_record_text_t), "%u", gpu->xccs);
    snprintf(key->words[DMA_RECORD_FIRMWARE], sizeof(dma_record_text_t), "%u", gpu->firmware);
    (void)uname(&kernel);
    put_word(key->words[DMA_RECORD_KERNEL], kernel.release);
    if (!dma_text_read(AT_FDCWD, DRIVER_VERSION, driver, sizeof(driver))) {
        driver[0] = '\0';
    }
    put_word(key->words[DMA_RECORD_DRIVER], driver);
    read_rocr(key->words[DMA_RECORD_ROCR]);
    put_word(key->words[DMA_RECORD_PROVIDER], provider);
}

/* ---- reading ---- */

/* The state of a parser. */
typedef struct record_parser {
    dma_record_t *record;
    unsigned line;
    bool headed;   /* the first line was there */
    bool inside;   /* a section has begun and not ended */
    uint32_t seen; /* bit mask of its lines so far */
    dma_record_section_t section;
} record_parser_t;

/* "proven", "failed: REASON", "not tried", or "not tried: REASON" */
static bool parse_result(const char *text, dma_record_result_t *result)
{
    for (int state = DMA_RECORD_NOT_TRIED; state <= DMA_RECORD_FAILED; state++) {
        size_t n = strlen(states[state]);
        const char *reason = strncmp(text + n, ": ", 2) ? "" : text + n + 2;

        if (strncmp(text, states[state], n)) {
            continue;
        }
        *result = (dma_record_result_t){.state = (dma_record_state_t)state};
        snprintf(result->reason, sizeof(result->reason), "%s", reason);
        return text[n] ? state != DMA_RECORD_PROVEN && *reason && !strcmp(result->reason, reason)
                       : state != DMA_RECORD_FAILED;
    }
    return false;
}

static const char *keep_section(record_parser_t *p)
{
    dma_record_t *r = p->record;
    dma_record_section_t *more;

    if (p->seen != (UINT32_C(1) << LINES) - 1) {
        return "the section is not complete";
    }
    if (r->n == DMA_RECORD_MAX) {
        return "there are too many sections";
    }
    if (!(more = realloc(r->sections, (r->n + 1) * sizeof(*more)))) {
        return "no memory";
    }
    r->sections = more;
    r->sections[r->n++] = p->section;
    return NULL;
}

/* A line "NAME VALUE" of a section. */
static const char *add_line(record_parser_t *p, const char *name, const char *value)
{
    unsigned i = 0;

    while (i < LINES && strcmp(name, names[i]) != 0) {
        i++;
    }
    if (!p->inside || i == LINES || p->seen >> i & 1) {
        return !p->inside ? "it belongs to no section" : i == LINES ? "there is no such name" : "the name comes twice";
    }
    p->seen |= UINT32_C(1) << i;
    if (i >= DMA_RECORD_WORDS) {
        return parse_result(value, &p->section.results[i - DMA_RECORD_WORDS])
                   ? NULL
                   : "neither \"proven\" nor \"failed: REASON\" nor \"not tried\"";
    }
    if (!*value || strlen(value) >= sizeof(dma_record_text_t) || strchr(value, ' ')) {
        return "the value is not as it must be";
    }
    strcpy(p->section.words[i], value);
    return NULL;
}

/* A line without its end. Returns what is wrong with it, or NULL. */
static const char *add(record_parser_t *p, char *line)
{
    char *name = line + strspn(line, " \t"), *value;
    size_t length = strlen(name);
    bool begins = !strncmp(name, "section", 7);

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
    if (!strcmp(name, "section") || !strcmp(name, "end")) {
        if (begins == p->inside) {
            return begins ? "a section begins in another one" : "no section has begun";
        }
        p->inside = begins;
        if (!begins) {
            return keep_section(p);
        }
        p->seen = 0;
        p->section = (dma_record_section_t){0};
        return NULL;
    }
    value = name + strcspn(name, " \t");
    if (*value) {
        *value++ = '\0';
        value += strspn(value, " \t");
    }
    return add_line(p, name, value);
}

/* The next line of the text, copied, so that each ends with a 0. */
static const char *next_line(record_parser_t *p, const char *text, size_t bytes, size_t *used)
{
    const char *end = memchr(text, '\n', bytes);
    size_t length = end ? (size_t)(end - text) : bytes;
    char line[LINE];

    p->line++;
    *used = length + (end ? 1 : 0);
    if (length >= sizeof(line)) {
        return "it is too long";
    }
    for (size_t i = 0; i < length; i++) {
        if ((text[i] < ' ' && text[i] != '\t') || text[i] > '~') {
            return "it is not plain text";
        }
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

/* The number of words that differ; *first is the first of them. */
static unsigned count_differences(const dma_record_key_t *a, const dma_record_key_t *b, unsigned *first)
{
    unsigned n = 0;

    for (unsigned i = DMA_RECORD_KEY; i-- > 0;) {
        if (strcmp(a->words[i], b->words[i]) != 0) {
            *first = i;
            n++;
        }
    }
    return n;
}

dma_status_t dma_record_find(const dma_record_t *record, const dma_record_key_t *key,
                             dma_record_result_t results[DMA_RECORD_FEATURES], char *why)
{
    unsigned least = UINT_MAX, first = 0;
    bool found = false;

    snprintf(why, DMA_RECORD_WHY_BYTES, "it has no section");
    for (size_t i = 0; i < record->n; i++) {
        const dma_record_section_t *s = &record->sections[i];
        unsigned differences = count_differences(key, &s->key, &first);

        for (int f = 0; f < DMA_RECORD_FEATURES && !differences; f++) {
            /* the order of the states: a failure counts more than a proof, a proof more than nothing */
            if (!found || s->results[f].state > results[f].state) {
                results[f] = s->results[f];
            }
        }
        found |= !differences;
        if (differences < least) {
            least = differences;
            snprintf(why, DMA_RECORD_WHY_BYTES,
                     "no section is about this GPU: its %s is %s, that of the section of %s is %s", names[first],
                     key->words[first], s->words[DMA_RECORD_HOST], s->words[first]);
        }
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
    fprintf(to, "\nsection\n");
    for (int i = 0; i < DMA_RECORD_WORDS; i++) {
        fprintf(to, "    %-10s %s\n", names[i], section->words[i]);
    }
    for (int f = 0; f < DMA_RECORD_FEATURES; f++) {
        const dma_record_result_t *r = &section->results[f];

        fprintf(to, "    %-10s %s%s%s\n", dma_record_feature_name((dma_record_feature_t)f), states[r->state],
                r->reason[0] ? ": " : "", r->reason);
    }
    fprintf(to, "end\n");
}
