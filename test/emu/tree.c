/*
 * emu_tree: writes KFD's files of an emulated node in sysfs to a folder, for programs that read the topology there:
 *
 *     FOLDER/generation_id
 *     FOLDER/system_properties
 *     FOLDER/nodes/N/gpu_id  name  properties
 *     FOLDER/nodes/N/mem_banks/0/properties
 *     FOLDER/nodes/N/caches/C/properties
 *     FOLDER/nodes/N/io_links/L/properties
 *     FOLDER/../amdgpu/initstate
 *     FOLDER/../caches/index0/level  size  ...             a cache of a processor, for machines that tell of none
 *     FOLDER/../drm/226:M/device/drm/card and renderDM     the GPU's render node
 *
 * With EMU_SVM=0 the files are those of a kernel without SVM.
 *
 * In place of the files of GPUs in EMU_HIDE (hide.h) there are folders: they can be opened and not read. A device cgroup has
 * the same effect, with EPERM. The links to these GPUs are present.
 *
 * usage: emu_tree FOLDER PERSONA GPUS
 */
#include "config.h"
#include "hide.h"
#include "persona.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH = 4096, LINK_XGMI = 11, LINK_PCIE = 2, GPU_CACHES = 2, DATA_OF_GPU = 1 | 8, FIRST_RENDER = 128 };

/* Bits of a GPU's capabilities. */
enum {
    RING_POWER_OF_TWO = 1 << 3,
    WATCH_POINTS = 1 << 7 | 2 << 8,
    DOORBELLS_64 = 2 << 12,
    DEBUG_TRAP = 1 << 15,
    REVISION_1 = 1 << 22,
    SRAM_ECC = 1 << 26,
    SVM = 1 << 27,
};

static uint32_t hidden; /* bit mask of GPUs */

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "emu_tree: %s: %s\n", what, strerror(errno));
    exit(1);
}

static FILE *create(int node, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Opens a file of a node, making the folders above it. */
static FILE *create(int node, const char *format, ...)
{
    char path[PATH];
    va_list args;
    va_start(args, format);
    vsnprintf(path, sizeof path, format, args);
    va_end(args);
    bool unreadable = node > 0 && hidden >> (node - 1) & 1;
    if (unreadable)
        strncat(path, "/", sizeof path - strlen(path) - 1);
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(path, 0777) && errno != EEXIST)
            die(path);
        *slash = '/';
    }
    FILE *file = fopen(unreadable ? "/dev/null" : path, "w");
    if (!file)
        die(path);
    return file;
}

static void finish(FILE *file)
{
    if (fclose(file))
        die("cannot write");
}

static void write_link(const char *folder, int node, int link, const struct emu_persona *persona, int gpus, int to)
{
    int xgmi = node > 0 && to > 0;
    FILE *file = create(node, "%s/nodes/%d/io_links/%d/properties", folder, node, link);
    fprintf(file, "type %d\nversion_major 0\nversion_minor 0\nnode_from %d\nnode_to %d\n", xgmi ? LINK_XGMI : LINK_PCIE,
            node, to);
    fprintf(file, "weight %d\nmin_latency 0\nmax_latency 0\n", xgmi ? EMU_LINK_WEIGHT_XGMI : EMU_LINK_WEIGHT_PCIE);
    fprintf(file, "min_bandwidth %d\nmax_bandwidth %d\n", xgmi ? 50000 : 32000, xgmi ? 50000 : 32000);
    fprintf(file, "recommended_transfer_size 0\nrecommended_sdma_engine_id_mask %u\nflags 1\n",
            node > 0 ? emu_persona_engine_mask(persona, gpus, node - 1, to - 1) : 0);
    finish(file);
}

static unsigned capability(void)
{
    const char *svm = getenv("EMU_SVM");
    return RING_POWER_OF_TWO | WATCH_POINTS | DOORBELLS_64 | DEBUG_TRAP | REVISION_1 | SRAM_ECC |
           (svm && strcmp(svm, "0") == 0 ? 0 : SVM);
}

static void write_cache(const char *folder, int node, int cache)
{
    FILE *file = create(node, "%s/nodes/%d/caches/%d/properties", folder, node, cache);
    fprintf(file, "processor_id_low %u\nlevel %d\nsize %d\ncache_line_size %d\n", 0x80000000u, cache + 1,
            cache ? 8192 : 16, cache ? 128 : 64);
    fprintf(file, "cache_lines_per_tag 1\nassociation 16\nlatency 0\ntype %d\nsibling_map 1\n", DATA_OF_GPU);
    finish(file);
}

static void write_render(const char *folder, int gpu)
{
    finish(create(0, "%s/../drm/226:%d/device/drm/card%d", folder, FIRST_RENDER + gpu, gpu));
    finish(create(0, "%s/../drm/226:%d/device/drm/renderD%d", folder, FIRST_RENDER + gpu, FIRST_RENDER + gpu));
}

static void write_properties(const char *folder, int node, const struct emu_persona *persona, int gpus)
{
    int gpu = node - 1, on_gpu = node > 0;
    FILE *file = create(node, "%s/nodes/%d/properties", folder, node);
    fprintf(file, "cpu_cores_count %ld\n", on_gpu ? 0 : sysconf(_SC_NPROCESSORS_ONLN));
    fprintf(file, "simd_count %u\n", on_gpu ? persona->compute_units * 4 : 0);
    fprintf(file, "mem_banks_count 1\ncaches_count %d\nio_links_count %d\np2p_links_count 0\n", on_gpu ? GPU_CACHES : 0,
            gpus);
    fprintf(file, "cpu_core_id_base 0\nsimd_id_base %u\n", on_gpu ? 0x80000000u + (uint32_t)gpu * 0x1000 : 0);
    fprintf(file, "max_waves_per_simd %d\nlds_size_in_kb %d\ngds_size_in_kb 0\n", on_gpu ? 8 : 0, on_gpu ? 64 : 0);
    fprintf(file, "num_gws %d\nwave_front_size %d\n", on_gpu ? 64 : 0, on_gpu ? 64 : 0);
    fprintf(file, "array_count %d\nsimd_arrays_per_engine 1\n", on_gpu ? EMU_ARRAYS : 0);
    fprintf(file, "cu_per_simd_array %u\nsimd_per_cu %d\nmax_slots_scratch_cu %d\n",
            on_gpu ? persona->compute_units / EMU_ARRAYS : 0, on_gpu ? 4 : 0, on_gpu ? 32 : 0);
    fprintf(file, "gfx_target_version %u\n", on_gpu ? persona->gfx_target_version : 0);
    fprintf(file, "vendor_id %d\ndevice_id %d\n", on_gpu ? 0x1002 : 0, on_gpu ? persona->device_id : 0);
    fprintf(file, "location_id %u\ndomain 0\n", on_gpu ? emu_persona_location(persona, gpu) : 0);
    fprintf(file, "drm_render_minor %d\n", on_gpu ? FIRST_RENDER + gpu : 0);
    fprintf(file, "hive_id %llu\n", on_gpu ? EMU_HIVE_ID : 0ull);
    fprintf(file, "num_sdma_engines %u\n", on_gpu ? persona->host_engines : 0);
    fprintf(file, "num_sdma_xgmi_engines %u\n", on_gpu ? persona->xgmi_engines : 0);
    fprintf(file, "num_sdma_queues_per_engine %d\n", on_gpu ? EMU_QUEUES_PER_ENGINE : 0);
    fprintf(file, "num_cp_queues %d\nmax_engine_clk_fcompute %d\n", on_gpu ? 24 : 0, on_gpu ? 1700 : 0);
    if (on_gpu)
        fprintf(file, "local_mem_size 0\nfw_version 71\ncapability %u\nsdma_fw_version 8\nunique_id %llu\nnum_xcc %d\n",
                capability(), (unsigned long long)emu_persona_unique_id(persona, gpu),
                persona->gfx_target_version >= 90400 ? EMU_PARTS : 1);
    fprintf(file, "max_engine_clk_ccompute 2500\n");
    finish(file);
}

static void write_node(const char *folder, int node, const struct emu_persona *persona, int gpus)
{
    int gpu = node - 1;
    FILE *file = create(node, "%s/nodes/%d/gpu_id", folder, node);
    fprintf(file, "%u\n", node ? emu_persona_gpu_id(persona, gpu) : 0);
    finish(file);
    file = create(node, "%s/nodes/%d/name", folder, node);
    fprintf(file, "%s\n", node ? persona->name : "");
    finish(file);
    write_properties(folder, node, persona, gpus);
    file = create(node, "%s/nodes/%d/mem_banks/0/properties", folder, node);
    fprintf(file, "heap_type %d\nsize_in_bytes %llu\nflags 0\nwidth %d\nmem_clk_max 1600\n", node ? 1 : 0,
            node ? (unsigned long long)persona->vram_bytes
                 : (unsigned long long)sysconf(_SC_PHYS_PAGES) * (unsigned long long)sysconf(_SC_PAGESIZE),
            node ? 4096 : 64);
    finish(file);
    for (int cache = 0; node && cache < GPU_CACHES; cache++)
        write_cache(folder, node, cache);
    if (node)
        write_render(folder, gpu);
    int link = 0;
    for (int to = 0; to <= gpus; to++)
        if (to != node)
            write_link(folder, node, link++, persona, gpus, to);
}

static void write_cpu_cache(const char *folder)
{
    static const struct {
        const char *name, *text;
    } files[] = {{"level", "1"},
                 {"type", "Data"},
                 {"size", "32K"},
                 {"coherency_line_size", "64"},
                 {"ways_of_associativity", "8"},
                 {"physical_line_partition", "1"},
                 {"shared_cpu_list", "0"},
                 {"shared_cpu_map", "1"}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        FILE *file = create(0, "%s/../caches/index0/%s", folder, files[i].name);
        fprintf(file, "%s\n", files[i].text);
        finish(file);
    }
}

int main(int argc, char **argv)
{
    const struct emu_persona *persona = argc == 4 ? emu_persona_find(argv[2]) : NULL;
    int gpus = argc == 4 ? atoi(argv[3]) : 0;
    if (!emu_hide_read(getenv("EMU_HIDE"), &hidden) || !persona || gpus < 1 || gpus > EMU_MAX_GPUS) {
        fprintf(stderr, "usage: emu_tree FOLDER mi100|mi250x|mi300x|mi308x 1..%d\n", EMU_MAX_GPUS);
        return 2;
    }
    FILE *file = create(0, "%s/generation_id", argv[1]);
    fprintf(file, "2\n");
    finish(file);
    file = create(0, "%s/system_properties", argv[1]);
    fprintf(file, "platform_oem 0\nplatform_id 0\nplatform_rev 0\n");
    finish(file);
    file = create(0, "%s/../amdgpu/initstate", argv[1]);
    fprintf(file, "live\n");
    finish(file);
    write_cpu_cache(argv[1]);
    for (int node = 0; node <= gpus; node++)
        write_node(argv[1], node, persona, gpus);
    return 0;
}
