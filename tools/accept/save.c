/*
 * Writing the record. Sections of other nodes or other keys stay in the file. Each key that was tried here gets one section for
 * this host. It has the results of all GPUs of this key together.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plan/gpu/profile.h"
#include "tools/accept/accept.h"

#define PATH 4096

static bool complain(accept_t *a, const char *path, const char *what)
{
    accept_say(a, "The record %s cannot be written: %s\n", path, what);
    return false;
}

/* Creates the folders above a file. */
static bool make_folders(const char *path)
{
    char folder[PATH];

    snprintf(folder, sizeof(folder), "%s", path);
    for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(folder, 0755) && errno != EEXIST) {
            return false;
        }
        *slash = '/';
    }
    return true;
}

/* What the file has so far. A file that is not there is an empty record. */
static bool load(accept_t *a, dma_record_t *record)
{
    char why[DMA_RECORD_WHY_BYTES];

    *record = (dma_record_t){0};
    if (access(a->options->record, F_OK) && errno == ENOENT) {
        return true;
    }
    return dma_record_load(a->options->record, record, why) == DMA_OK || complain(a, a->options->record, why);
}

static bool is_key(const dma_record_key_t *a, const dma_record_key_t *b)
{
    return !memcmp(a, b, sizeof(*a));
}

/* Whether something was tried with this subject. Only then its key is known. */
static bool is_tried(const accept_subject_t *s)
{
    return s->key.words[DMA_RECORD_PROVIDER][0];
}

/* Of two GPUs: a failure of one counts for both, and a proof only if both have it. */
static void combine(dma_record_result_t *all, const dma_record_result_t *one)
{
    static const int rank[] = {[DMA_RECORD_PROVEN] = 0, [DMA_RECORD_NOT_TRIED] = 1, [DMA_RECORD_FAILED] = 2};

    if (rank[one->state] > rank[all->state]) {
        *all = *one;
    }
}

/* The section of a key: the subjects from `first` on that have it. */
static void print_section(const accept_t *a, size_t first, FILE *to)
{
    const accept_subject_t *s = &a->subjects[first];
    dma_record_section_t section = {.key = s->key};

    snprintf(section.words[DMA_RECORD_HOST], sizeof(dma_record_text_t), "%s", a->host);
    snprintf(section.words[DMA_RECORD_DATE], sizeof(dma_record_text_t), "%s", a->date);
    memcpy(section.results, s->results, sizeof(section.results));
    for (size_t i = first + 1; i < a->nsubjects; i++) {
        for (int f = 0; f < DMA_RECORD_FEATURES && is_key(&a->subjects[i].key, &section.key); f++) {
            combine(&section.results[f], &a->subjects[i].results[f]);
        }
    }
    if (a->doubted == s->provider) {
        section.results[DMA_RECORD_PRELAUNCH] =
            (dma_record_result_t){.state = DMA_RECORD_FAILED, .reason = "its jobs have not ended"};
    }
    dma_record_print(&section, to);
}

/* Whether an earlier subject has the same key. */
static bool is_printed(const accept_t *a, size_t i)
{
    for (size_t k = 0; k < i; k++) {
        if (is_key(&a->subjects[k].key, &a->subjects[i].key)) {
            return true;
        }
    }
    return false;
}

/* Whether this run replaces a section of the file. */
static bool is_replaced(const accept_t *a, const dma_record_section_t *section)
{
    for (size_t i = 0; i < a->nsubjects; i++) {
        if (is_tried(&a->subjects[i]) && is_key(&a->subjects[i].key, &section->key) &&
            !strcmp(a->host, section->words[DMA_RECORD_HOST])) {
            return true;
        }
    }
    return false;
}

static void print_all(const accept_t *a, const dma_record_t *old, FILE *to)
{
    dma_record_print_head(to);
    for (size_t i = 0; i < old->n; i++) {
        if (!is_replaced(a, &old->sections[i])) {
            dma_record_print(&old->sections[i], to);
        }
    }
    for (size_t i = 0; i < a->nsubjects; i++) {
        if (is_tried(&a->subjects[i]) && !is_printed(a, i)) {
            print_section(a, i, to);
        }
    }
}

/* Writes a new file and puts it in the place of the old one, so that jobs never see a part of it. It is on the disk before a packet
 * is tried that may take this node down. */
static bool replace(accept_t *a, const dma_record_t *old, const char *record)
{
    char path[PATH];
    FILE *to;
    bool written;

    if ((size_t)snprintf(path, sizeof(path), "%s.%d", record, (int)getpid()) >= sizeof(path)) {
        return complain(a, record, "its path is too long");
    }
    if (!make_folders(path) || !(to = fopen(path, "we"))) {
        return complain(a, record, strerror(errno));
    }
    print_all(a, old, to);
    written = !fflush(to) && !fsync(fileno(to)) && !fchmod(fileno(to), 0644);
    if (fclose(to) || !written || rename(path, record)) {
        int error = errno;

        unlink(path);
        return complain(a, record, strerror(error));
    }
    return true;
}

bool accept_save(accept_t *a)
{
    dma_record_t old;
    bool saved;

    if (!load(a, &old)) {
        return false;
    }
    saved = replace(a, &old, a->options->record);
    dma_record_free(&old);
    return saved;
}

bool accept_save_for_jobs(accept_t *a, const char *path)
{
    const char *doubted = a->doubted;
    const dma_record_t none = {0};
    bool saved;

    a->doubted = NULL;
    saved = replace(a, &none, path);
    a->doubted = doubted;
    return saved;
}

bool accept_save_profile(char path[ACCEPT_PATH])
{
    dma_gpu_profile_t p = dma_gpu_profile_default();
    FILE *file = accept_temporary_file("profile", path) ? fopen(path, "w") : NULL;

    p.trigger_ps = p.armed_ps = 0; /* waiting takes no time */
#define LINE(name, value, help) fprintf(file, "%s %llu\n", #name, (unsigned long long)p.name);
    if (file) {
        DMA_GPU_PROFILE_FIELDS(LINE)
    }
#undef LINE
    return file && !fclose(file);
}

bool accept_save_begin(accept_t *a)
{
    if (!strcmp(a->options->record, DMA_RECORD_ALL)) {
        return complain(a, a->options->record, "it is not a file: name one with --record");
    }
    return accept_save(a); /* nothing has been tried, so nothing changes */
}
