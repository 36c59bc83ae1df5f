/*
 * A cache for libamd_comgr.so, which HIP loads to compile its own kernels. HIP does so in every process, at the first stream of
 * every device, which takes longer than any test. Compiled kernels are kept in a folder (EMU_COMGR_CACHE).
 *
 * This library defines only amd_comgr_do_action. It depends on the real library, where the loader finds all other functions.
 * Its soname differs from that of the real library; otherwise the loader would not load the real one.
 *
 * The name of a file is a hash of all inputs of an action and of the real library. The file has the outputs of the action:
 *
 *     { kind, bytes of the name, bytes of the data; name; data }...
 *
 * Outputs without data are omitted, because HIP uses the data as a string. A file that is incomplete is ignored. Files are
 * renamed into place, so that processes can share the folder.
 */
#if __has_include(<amd_comgr/amd_comgr.h>)
#include <amd_comgr/amd_comgr.h>
#else
#include <amd_comgr.h>
#endif
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH = 4096, TEXT = 4096, LARGEST = 256 << 20 };

struct head {
    uint32_t kind, name_bytes;
    uint64_t data_bytes;
};

typedef amd_comgr_status_t action_fn(amd_comgr_action_kind_t kind, amd_comgr_action_info_t info,
                                     amd_comgr_data_set_t in, amd_comgr_data_set_t out);

/* Eight bytes at a time, because the inputs are megabytes, and each process of a test hashes them. */
static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t count)
{
    const unsigned char *at = bytes;
    for (; count >= sizeof(uint64_t); at += sizeof(uint64_t), count -= sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        hash = (hash ^ word) * 0x100000001b3ull;
        hash ^= hash >> 32;
    }
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ at[i]) * 0x100000001b3ull;
    return hash;
}

/* The bytes and the name of a datum. Both must be freed. */
struct datum {
    char *bytes, *name;
    size_t byte_count, name_count;
};

static bool fetch(amd_comgr_data_t data, struct datum *datum)
{
    *datum = (struct datum){.bytes = NULL};
    if (amd_comgr_get_data(data, &datum->byte_count, NULL) || amd_comgr_get_data_name(data, &datum->name_count, NULL))
        return false;
    datum->bytes = malloc(datum->byte_count + 1);
    datum->name = calloc(1, datum->name_count + 1);
    if (datum->bytes && datum->name && !amd_comgr_get_data(data, &datum->byte_count, datum->bytes) &&
        !amd_comgr_get_data_name(data, &datum->name_count, datum->name))
        return true;
    free(datum->bytes);
    free(datum->name);
    return false;
}

/* Calls `each` for all data of a set. False: `each` returned false, or a datum cannot be read. */
static bool for_all(amd_comgr_data_set_t set, bool (*each)(void *ctx, uint32_t kind, const struct datum *datum),
                    void *ctx)
{
    for (int kind = 1; kind <= AMD_COMGR_DATA_KIND_LAST; kind++) {
        size_t count;
        if (amd_comgr_action_data_count(set, (amd_comgr_data_kind_t)kind, &count))
            continue;
        for (size_t i = 0; i < count; i++) {
            amd_comgr_data_t data;
            struct datum datum;
            if (amd_comgr_action_data_get_data(set, (amd_comgr_data_kind_t)kind, i, &data))
                return false;
            bool good = fetch(data, &datum);
            amd_comgr_release_data(data);
            if (!good)
                return false;
            good = each(ctx, (uint32_t)kind, &datum);
            free(datum.bytes);
            free(datum.name);
            if (!good)
                return false;
        }
    }
    return true;
}

static bool hash_datum(void *ctx, uint32_t kind, const struct datum *datum)
{
    uint64_t *hash = ctx;
    *hash = hash_bytes(*hash, &kind, sizeof kind);
    *hash = hash_bytes(*hash, datum->bytes, datum->byte_count);
    return true;
}

static bool hash_action(amd_comgr_action_kind_t kind, amd_comgr_action_info_t info, amd_comgr_data_set_t in,
                        uint64_t *hash)
{
    char text[TEXT] = "";
    size_t count = 0;
    amd_comgr_language_t language;
    *hash = hash_bytes(0xcbf29ce484222325ull, &kind, sizeof kind);
    /* The second call copies `count` bytes, even if the text is shorter. So `count` comes from the first call. */
    if (amd_comgr_action_info_get_isa_name(info, &count, NULL) || count > sizeof text ||
        amd_comgr_action_info_get_isa_name(info, &count, text) || amd_comgr_action_info_get_language(info, &language))
        return false;
    *hash = hash_bytes(*hash, text, strlen(text));
    *hash = hash_bytes(*hash, &language, sizeof language);
    size_t options;
    if (amd_comgr_action_info_get_option_list_count(info, &options))
        return false;
    for (size_t i = 0; i < options; i++) {
        if (amd_comgr_action_info_get_option_list_item(info, i, &count, NULL) || count > sizeof text ||
            amd_comgr_action_info_get_option_list_item(info, i, &count, text))
            return false;
        *hash = hash_bytes(*hash, text, strlen(text) + 1);
    }
    Dl_info library;
    struct stat file;
    if (!dladdr((void *)amd_comgr_get_data, &library) || stat(library.dli_fname, &file))
        return false;
    *hash = hash_bytes(*hash, &file.st_size, sizeof file.st_size);
    *hash = hash_bytes(*hash, &file.st_mtim, sizeof file.st_mtim);
    return for_all(in, hash_datum, hash);
}

static bool write_datum(void *ctx, uint32_t kind, const struct datum *datum)
{
    struct head head = {.kind = kind, .name_bytes = (uint32_t)datum->name_count, .data_bytes = datum->byte_count};
    if (datum->byte_count == 0)
        return true;
    return fwrite(&head, sizeof head, 1, ctx) == 1 &&
           fwrite(datum->name, 1, datum->name_count, ctx) == datum->name_count &&
           fwrite(datum->bytes, 1, datum->byte_count, ctx) == datum->byte_count;
}

static void remember(const char *path, amd_comgr_data_set_t out)
{
    char fresh[PATH + 16];
    snprintf(fresh, sizeof fresh, "%s.%d", path, (int)getpid());
    FILE *file = fopen(fresh, "we");
    if (!file)
        return;
    bool good = for_all(out, write_datum, file);
    if (fclose(file) || !good || rename(fresh, path))
        unlink(fresh);
}

/* Adds a datum to a set. */
static bool add(amd_comgr_data_set_t out, const struct head *head, const char *name, const char *bytes)
{
    amd_comgr_data_t data;
    if (amd_comgr_create_data((amd_comgr_data_kind_t)head->kind, &data))
        return false;
    bool good = !amd_comgr_set_data(data, head->data_bytes, bytes) && !amd_comgr_set_data_name(data, name) &&
                !amd_comgr_data_set_add(out, data);
    amd_comgr_release_data(data);
    return good;
}

static bool recall(const char *path, amd_comgr_data_set_t out)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    bool good = true;
    struct head head;
    while (good && fread(&head, sizeof head, 1, file) == 1) {
        char name[TEXT] = "", *bytes = head.data_bytes <= LARGEST ? malloc(head.data_bytes) : NULL;
        good = bytes && head.name_bytes < sizeof name && fread(name, 1, head.name_bytes, file) == head.name_bytes &&
               fread(bytes, 1, head.data_bytes, file) == head.data_bytes && add(out, &head, name, bytes);
        free(bytes);
    }
    fclose(file);
    return good;
}

amd_comgr_status_t AMD_COMGR_API amd_comgr_do_action(amd_comgr_action_kind_t kind, amd_comgr_action_info_t info,
                                                     amd_comgr_data_set_t in, amd_comgr_data_set_t out)
{
    action_fn *real = (action_fn *)dlsym(RTLD_NEXT, "amd_comgr_do_action");
    if (!real)
        return AMD_COMGR_STATUS_ERROR;
    const char *folder = getenv("EMU_COMGR_CACHE");
    uint64_t hash;
    if (!folder || !hash_action(kind, info, in, &hash))
        return real(kind, info, in, out);
    char path[PATH];
    snprintf(path, sizeof path, "%s/%016llx", folder, (unsigned long long)hash);
    if (recall(path, out))
        return AMD_COMGR_STATUS_SUCCESS;
    amd_comgr_status_t status = real(kind, info, in, out);
    if (status == AMD_COMGR_STATUS_SUCCESS)
        remember(path, out);
    return status;
}
