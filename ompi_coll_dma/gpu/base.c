/* What all code that calls a vendor's library needs: see base.h. */
#include "gpu/base.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* The unversioned name of HIP is a development link, but some applications load that. */
const char *const dma_gpu_hip_libraries[] = {"libamdhip64.so.8", "libamdhip64.so.7", "libamdhip64.so.6",
                                             "libamdhip64.so.5", "libamdhip64.so",   NULL};
const char *const dma_gpu_cuda_libraries[] = {"libcuda.so.1", "libcuda.so", NULL};

static struct {
    pthread_mutex_t lock; /* held also during calls that would wait for such a stream */
    int n;
} waiting_streams = {.lock = PTHREAD_MUTEX_INITIALIZER};

void dma_gpu_note_waiting_stream(bool more)
{
    pthread_mutex_lock(&waiting_streams.lock);
    waiting_streams.n += more ? 1 : -1;
    pthread_mutex_unlock(&waiting_streams.lock);
}

bool dma_gpu_begin_blocking(void)
{
    pthread_mutex_lock(&waiting_streams.lock);
    if (waiting_streams.n == 0) {
        return true;
    }
    pthread_mutex_unlock(&waiting_streams.lock);
    return false;
}

void dma_gpu_end_blocking(void)
{
    pthread_mutex_unlock(&waiting_streams.lock);
}

/* ---- errors ---- */

static _Thread_local char last_error[256];

const char *dma_gpu_error(void)
{
    return last_error;
}

dma_status_t dma_gpu_fail(dma_status_t status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(last_error, sizeof(last_error), format, args);
    va_end(args);
    return status;
}

/* ---- libraries ---- */

/* The soname of a loaded library; NULL: it has none. */
static const char *soname_of(const struct dl_phdr_info *info)
{
    const ElfW(Dyn) *entry = NULL;
    uintptr_t strings = 0, soname = 0;

    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC) {
            entry = (const ElfW(Dyn) *)((uintptr_t)info->dlpi_addr + (uintptr_t)info->dlpi_phdr[i].p_vaddr);
        }
    }
    for (; entry && entry->d_tag != DT_NULL && !(strings && soname); entry++) {
        if (entry->d_tag == DT_STRTAB) {
            strings = (uintptr_t)entry->d_un.d_ptr;
        } else if (entry->d_tag == DT_SONAME) {
            soname = (uintptr_t)entry->d_un.d_val; /* not 0, which is the empty string */
        }
    }
    /* The loader replaces offsets by addresses, where it may write. */
    strings += strings < (uintptr_t)info->dlpi_addr ? (uintptr_t)info->dlpi_addr : 0;
    return soname && strings ? (const char *)(strings + soname) : NULL;
}

/* What the name of a library begins with. Another version may follow, or more. */
typedef struct stem {
    const char *name;
    size_t bytes;
} stem_t;

static stem_t stem_of(const char *soname)
{
    return (stem_t){soname, strcspn(soname, ".")};
}

/* May this loaded library be one of those that are wanted? Its file can have another name than its soname: a link to a version, a
 * copy that an application brings along. dlopen finds it by its soname. The stems end with an empty one. */
static int is_similar(struct dl_phdr_info *info, size_t size, void *wanted)
{
    const char *slash = strrchr(info->dlpi_name, '/'), *file = slash ? slash + 1 : info->dlpi_name;
    const char *soname = soname_of(info);

    (void)size;
    for (const stem_t *stem = wanted; stem->bytes; stem++) {
        if (!strncmp(file, stem->name, stem->bytes) || (soname && !strncmp(soname, stem->name, stem->bytes))) {
            return 1;
        }
    }
    return 0;
}

/* For a library that is not loaded, dlopen would look into all folders: a third of a millisecond for all names of runtimes. */
void *dma_gpu_find_library(const char *const *sonames)
{
    stem_t wanted[2] = {{0}};
    bool loaded = false;

    for (; *sonames; sonames++) {
        stem_t stem = stem_of(*sonames);
        void *library;

        if (stem.bytes != wanted->bytes ||
            strncmp(wanted->name, stem.name, stem.bytes)) { /* one look for all versions */
            *wanted = stem;
            loaded = dl_iterate_phdr(is_similar, wanted);
        }
        library = loaded ? dlopen(*sonames, RTLD_LAZY | RTLD_NOLOAD) : NULL;
        if (library) {
            return library;
        }
    }
    return NULL;
}

/* One look at all libraries for both runtimes. It is part of the first call of each process. */
bool dma_gpu_may_be_loaded(void)
{
    stem_t wanted[] = {stem_of(dma_gpu_hip_libraries[0]), stem_of(dma_gpu_cuda_libraries[0]), {0}};

    return dl_iterate_phdr(is_similar, wanted);
}

bool dma_gpu_find_symbols(void *library, const dma_gpu_symbol_t *symbols, size_t n, void *calls)
{
    for (size_t i = 0; i < n; i++) {
        void *symbol = symbols[i].name ? dlsym(library, symbols[i].name) : NULL;

        if (!symbol && symbols[i].required) {
            dma_gpu_fail(DMA_UNSUPPORTED, "the GPU runtime that is loaded lacks %s", symbols[i].name);
            return false;
        }
        memcpy((char *)calls + i * sizeof(symbol), &symbol, sizeof(symbol));
    }
    return true;
}
