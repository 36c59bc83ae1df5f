/* See libsdma_tree.h. */
#include "libsdma_tree.h"

#include <check.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_GPUS 64
#define PATH     512

typedef struct device {
    unsigned id, gfx, host, xgmi, queues, hive;
    char name[32];
} device_t;

typedef struct gpu {
    device_t device;
    unsigned domain, location, partition, links, p2p_links;
} gpu_t;

typedef struct machine {
    const char *root;
    unsigned cpus, ngpus, rows;
    device_t device;
    gpu_t gpus[MAX_GPUS];
} machine_t;

void tree_address(const char *text, unsigned *domain, unsigned *location)
{
    unsigned bus, device, function;

    ck_assert_int_eq(sscanf(text, "%x:%x:%x.%x", domain, &bus, &device, &function), 4);
    *location = bus << 8 | device << 3 | function;
}

void tree_write(const char *root, const char *path, const char *text)
{
    char full[PATH];
    FILE *f;

    snprintf(full, sizeof(full), "%s/%s", root, path);
    for (char *slash = strchr(full + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(full, 0755);
        *slash = '/';
    }
    remove(full);
    f = fopen(full, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void remove_all(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void tree_dangle(const char *root, const char *path)
{
    char full[PATH];

    snprintf(full, sizeof(full), "%s/%s", root, path);
    remove_all(full);
    ck_assert_int_eq(symlink("nowhere", full), 0);
}

void tree_bar(const char *root, const char *path)
{
    char full[PATH];

    snprintf(full, sizeof(full), "%s/%s", root, path);
    remove_all(full);
    ck_assert_int_eq(mkdir(full, 0755), 0);
}

__attribute__((format(printf, 3, 4))) static void node_file(const machine_t *m, const char *path, const char *format,
                                                            ...)
{
    char text[4096];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    tree_write(m->root, path, text);
}

/* mask NULL: the driver does not say */
static void write_link(const machine_t *m, const char *kind, unsigned from, unsigned number, unsigned to, unsigned type,
                       const char *mask)
{
    char path[PATH], last[64] = "";

    if (mask) {
        snprintf(last, sizeof(last), "recommended_sdma_engine_id_mask %lu\n", strtoul(mask, NULL, 16));
    }
    snprintf(path, sizeof(path), "nodes/%u/%s/%u/properties", from, kind, number);
    node_file(m, path,
              "type %u\nversion_major 0\nversion_minor 0\nnode_from %u\nnode_to %u\nweight 15\nmin_latency 0\n"
              "max_latency 0\nmin_bandwidth 64000\nmax_bandwidth 64000\nrecommended_transfer_size 0\n%sflags 1\n",
              type, from, to, last);
}

static void write_cpu(const machine_t *m, unsigned node)
{
    char path[PATH];

    snprintf(path, sizeof(path), "nodes/%u/gpu_id", node);
    node_file(m, path, "0\n");
    snprintf(path, sizeof(path), "nodes/%u/name", node);
    node_file(m, path, "\n");
    snprintf(path, sizeof(path), "nodes/%u/properties", node);
    node_file(m, path, "cpu_cores_count 96\nsimd_count 0\nio_links_count 0\nlocation_id 0\ndomain 0\n");
}

static void write_gpu(machine_t *m, gpu_t *g)
{
    unsigned node = m->cpus + (unsigned)(g - m->gpus);
    char path[PATH];

    snprintf(path, sizeof(path), "nodes/%u/gpu_id", node);
    node_file(m, path, "%u\n", 4096 + node * 37);
    snprintf(path, sizeof(path), "nodes/%u/name", node);
    node_file(m, path, "%s\n", g->device.name);
    snprintf(path, sizeof(path), "nodes/%u/properties", node);
    node_file(m, path,
              "cpu_cores_count 0\nsimd_count 1216\nmem_banks_count 1\ncaches_count 402\nsimd_id_base 2147487744\n"
              "wave_front_size 64\ngfx_target_version %u\nvendor_id 4098\ndevice_id %u\nlocation_id %u\ndomain %u\n"
              "drm_render_minor %u\nhive_id %u\nnum_sdma_engines %u\nnum_sdma_xgmi_engines %u\n"
              "num_sdma_queues_per_engine %u\nnum_cp_queues 24\nlocal_mem_size 0\nunique_id 18446744073709551615\n"
              "num_xcc 8\nmax_engine_clk_ccompute 3800\n",
              g->device.gfx, g->device.id, g->location | g->partition << 28, g->domain, 128 + node, g->device.hive,
              g->device.host, g->device.xgmi, g->device.queues);
    write_link(m, "io_links", node, g->links++, node % m->cpus, DMA_TOPO_PCIE, "3");
}

static void link_gpus(machine_t *m, unsigned from, unsigned to, bool p2p, const char *mask)
{
    gpu_t *g = &m->gpus[from];
    const char *said = strcmp(mask, "none") ? mask : NULL;

    if (from == to || !strcmp(mask, "-")) {
        return;
    }
    if (p2p) {
        write_link(m, "p2p_links", m->cpus + from, g->p2p_links++, m->cpus + to, DMA_TOPO_PCIE, said);
    } else {
        write_link(m, "io_links", m->cpus + from, g->links++, m->cpus + to, DMA_TOPO_XGMI, said);
    }
}

static void one_row(machine_t *m, char *words)
{
    char *next, *mask = strtok_r(words, " \n", &next);

    for (unsigned to = 0; to < m->ngpus; to++, mask = strtok_r(NULL, " \n", &next)) {
        ck_assert_msg(mask, "row %u is too short", m->rows);
        link_gpus(m, m->rows, to, false, mask);
    }
    ck_assert_ptr_null(mask);
    m->rows++;
}

static void all_to_all(machine_t *m, const char *kind, const char *mask)
{
    for (unsigned from = 0; from < m->ngpus; from++) {
        for (unsigned to = 0; to < m->ngpus; to++) {
            link_gpus(m, from, to, !strcmp(kind, "p2p"), mask);
        }
    }
}

static void one_gpu(machine_t *m, const char *words)
{
    gpu_t *g = &m->gpus[m->ngpus++];
    char address[32];

    ck_assert_uint_le(m->ngpus, MAX_GPUS);
    *g = (gpu_t){.device = m->device};
    ck_assert_int_ge(sscanf(words, "%31s %u", address, &g->partition), 1);
    tree_address(address, &g->domain, &g->location);
    write_gpu(m, g);
}

static void one_line(machine_t *m, char *line)
{
    char kind[8], mask[16];
    device_t *d = &m->device;

    if (line[0] == '#' || line[0] == '\n') {
        return;
    }
    if (sscanf(line, "cpus %u", &m->cpus) == 1) {
        for (unsigned i = 0; i < m->cpus; i++) {
            write_cpu(m, i);
        }
    } else if (!strncmp(line, "gpu ", 4)) {
        one_gpu(m, line + 4);
    } else if (!strncmp(line, "xgmi ", 5)) {
        one_row(m, line + 5);
    } else if (sscanf(line, "all %7s %15s", kind, mask) == 2) {
        all_to_all(m, kind, mask);
    } else {
        ck_assert_msg(sscanf(line, "device %x gfx %u engines %u %u queues %u hive %u name %31s", &d->id, &d->gfx,
                             &d->host, &d->xgmi, &d->queues, &d->hive, d->name) == 7,
                      "what is this? %s", line);
    }
}

char *tree_make(const char *machine)
{
    /* The tree has hundreds of small files: it is in memory where the system has a place for that. */
    const char *tmp = getenv("TMPDIR"), *memory = access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm";
    char path[PATH], line[PATH], *root;
    machine_t *m = calloc(1, sizeof(*m));
    FILE *f;

    snprintf(path, sizeof(path), "%s/dma-topology-XXXXXX", tmp ? tmp : memory);
    root = strdup(mkdtemp(path));
    chmod(root, 0755);
    m->root = root;
    snprintf(path, sizeof(path), "%s/%s.txt", DMA_TEST_TOPOLOGIES, machine);
    f = fopen(path, "r");
    ck_assert_msg(f, "%s cannot be opened", path);
    while (fgets(line, sizeof(line), f)) {
        one_line(m, line);
    }
    fclose(f);
    free(m);
    return root;
}

void tree_remove(char *root)
{
    remove_all(root);
    free(root);
}

dma_topo_t *tree_read(const char *machine)
{
    char *root = tree_make(machine);
    const char *reason = "";
    dma_topo_t *topo = NULL;

    ck_assert_msg(dma_topo_read(root, &topo, &reason) == DMA_OK, "%s: %s", machine, reason);
    tree_remove(root);
    return topo;
}
