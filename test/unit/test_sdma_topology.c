/* KFD's topology: machines that we do not have, files that may not be read, text that is not as it should be. */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libsdma_tree.h"
#include "libunit.h"

#define PATH 512
#define CPUS 2 /* of the machines whose links are looked at: their nodes come first */

static const struct {
    const char *name;
    unsigned gpus, cpus, device, version, host, xgmi, links;
} machines[] = {
    {"mi300x-spx", 8, 2, 0x74a1, 90402, 2, 14, 8},  {"mi325x", 8, 2, 0x74a5, 90402, 2, 14, 8},
    {"mi308x", 8, 2, 0x74a2, 90402, 2, 6, 8},       {"six-engines", 8, 2, 0x74a1, 90402, 2, 6, 8},
    {"mi350x", 8, 2, 0x75a0, 90500, 2, 14, 8},      {"mi300x-dpx", 4, 2, 0x74a1, 90402, 2, 6, 4},
    {"mi300x-cpx", 16, 2, 0x74a1, 90402, 2, 0, 16}, {"mi300x-4", 4, 2, 0x74a1, 90402, 2, 14, 4},
    {"mi210-2", 2, 2, 0x740f, 90010, 2, 3, 2},      {"mi210-pcie", 4, 2, 0x740f, 90010, 2, 3, 4},
    {"mi250x", 8, 4, 0x7408, 90010, 2, 3, 8},       {"mi100", 4, 2, 0x738c, 90008, 2, 6, 4},
    {"multi-bit", 6, 1, 0x74a1, 90402, 2, 6, 6},
};

#define MACHINES (int)(sizeof(machines) / sizeof(machines[0]))

/* Reads a tree that was changed, and removes it. */
static dma_topo_t *read_and_remove(char *root)
{
    const char *reason = "";
    dma_topo_t *topo = NULL;

    ck_assert_msg(dma_topo_read(root, &topo, &reason) == DMA_OK, "%s", reason);
    tree_remove(root);
    return topo;
}

static void nothing_there(char *root, const char *why)
{
    const char *reason = "";
    dma_topo_t *topo = NULL;

    ck_assert_int_eq(dma_topo_read(root, &topo, &reason), DMA_UNSUPPORTED);
    ck_assert_ptr_null(topo);
    ck_assert_msg(strstr(reason, why), "%s", reason);
}

START_TEST(machine)
{
    dma_topo_t *topo = tree_read(machines[_i].name);

    ck_assert_uint_eq(topo->ngpus, machines[_i].gpus);
    ck_assert_uint_eq(topo->hidden, 0);
    for (uint32_t i = 0; i < topo->ngpus; i++) {
        const dma_topo_gpu_t *g = &topo->gpus[i];
        ck_assert_uint_eq(g->node, machines[_i].cpus + i);
        ck_assert_uint_eq(g->gpu_id, 4096 + g->node * 37);
        ck_assert_uint_eq(g->device_id, machines[_i].device);
        ck_assert_uint_eq(g->version, machines[_i].version);
        ck_assert_uint_eq(g->host_engines, machines[_i].host);
        ck_assert_uint_eq(g->xgmi_engines, machines[_i].xgmi);
        ck_assert_uint_eq(g->nlinks, machines[_i].links);
        ck_assert_ptr_eq(dma_topo_find(topo, g->domain, g->location, (int)g->partition), g);
    }
    dma_topo_free(topo);
}
END_TEST

static const dma_topo_link_t *link_of(const dma_topo_t *topo, uint32_t from, uint32_t to)
{
    const dma_topo_gpu_t *g = &topo->gpus[from];

    for (uint32_t i = 0; i < g->nlinks; i++) {
        if (g->links[i].to == CPUS + to) {
            return &g->links[i];
        }
    }
    return NULL;
}

START_TEST(links)
{
    dma_topo_t *topo = tree_read("mi300x-spx");

    ck_assert_uint_eq(link_of(topo, 0, 1)->engines, 1 << 14);
    ck_assert_uint_eq(link_of(topo, 2, 0)->engines, 1 << 10);
    ck_assert_uint_eq(link_of(topo, 7, 6)->engines, 1 << 14);
    ck_assert_uint_eq(link_of(topo, 7, 6)->type, DMA_TOPO_XGMI);
    ck_assert_ptr_null(link_of(topo, 7, 7));
    ck_assert_uint_eq(topo->gpus[0].links[0].type, DMA_TOPO_PCIE);
    ck_assert_uint_lt(topo->gpus[0].links[0].to, topo->gpus[0].node);
    dma_topo_free(topo);

    topo = tree_read("mi210-pcie");
    ck_assert_uint_eq(link_of(topo, 0, 3)->type, DMA_TOPO_PCIE);
    dma_topo_free(topo);

    topo = tree_read("mi210-2");
    ck_assert_uint_eq(link_of(topo, 0, 1)->engines, 0);
    ck_assert_uint_eq(link_of(topo, 0, 1)->type, DMA_TOPO_XGMI);
    dma_topo_free(topo);
}
END_TEST

/* Whatever order a runtime shows its devices in, the address says which one it means. */
START_TEST(found_by_address)
{
    static const char *const visible[] = {"0000:df:00.0", "0000:0c:00.0", "0000:9f:00.0", "0000:38:00.0"};
    static const uint32_t gpu[] = {7, 0, 4, 2};
    dma_topo_t *topo = tree_read("mi300x-spx");
    uint32_t domain, location;

    for (int i = 0; i < 4; i++) {
        tree_address(visible[i], &domain, &location);
        ck_assert_ptr_eq(dma_topo_find(topo, domain, location, DMA_TOPO_ANY_PARTITION), &topo->gpus[gpu[i]]);
    }
    ck_assert_ptr_null(dma_topo_find(topo, 1, 0x0c00, DMA_TOPO_ANY_PARTITION));
    ck_assert_ptr_null(dma_topo_find(topo, 0, 0x0d00, DMA_TOPO_ANY_PARTITION));
    ck_assert_ptr_null(dma_topo_find(topo, 0, 0x0c00, 1));
    dma_topo_free(topo);
}
END_TEST

START_TEST(found_by_partition)
{
    dma_topo_t *topo = tree_read("mi300x-cpx");

    ck_assert_ptr_eq(dma_topo_find(topo, 0, 0x0c00, 5), &topo->gpus[5]);
    ck_assert_ptr_eq(dma_topo_find(topo, 0, 0x2200, 0), &topo->gpus[8]);
    /* as a function of the device */
    ck_assert_ptr_eq(dma_topo_find(topo, 0, 0x2203, DMA_TOPO_ANY_PARTITION), &topo->gpus[11]);
    /* one of eight, but which? */
    ck_assert_ptr_null(dma_topo_find(topo, 0, 0x0c00, DMA_TOPO_ANY_PARTITION));
    ck_assert_uint_eq(dma_topo_count(topo, 0, 0x0c00), 8);
    ck_assert_uint_eq(dma_topo_count(topo, 1, 0x0c00), 0);
    ck_assert_uint_eq(dma_topo_count(topo, 0, 0x0c01), 0);
    /* two that the driver describes as one */
    topo->gpus[6].partition = 5;
    ck_assert_ptr_null(dma_topo_find(topo, 0, 0x0c00, 5));
    ck_assert_ptr_null(dma_topo_find(topo, 0, 0x0c05, DMA_TOPO_ANY_PARTITION));
    dma_topo_free(topo);
}
END_TEST

/* GPUs kept from this process: whatever way reading fails, they are counted and the others are there. */
START_TEST(hidden_devices)
{
    char *root = tree_make("mi300x-spx");
    dma_topo_t *topo;

    tree_dangle(root, "nodes/2/gpu_id");
    tree_bar(root, "nodes/4/gpu_id");
    tree_bar(root, "nodes/5/properties");
    tree_dangle(root, "nodes/6/properties");
    topo = read_and_remove(root);
    ck_assert_uint_eq(topo->ngpus, 4);
    ck_assert_uint_eq(topo->hidden, 4);
    ck_assert_uint_eq(topo->gpus[0].node, 3);
    ck_assert_uint_eq(topo->gpus[1].node, 7);
    /* its links name them all the same */
    ck_assert_uint_eq(link_of(topo, 0, 0)->engines, 1 << 14);
    ck_assert_uint_eq(link_of(topo, 0, 2)->engines, 1 << 2);
    dma_topo_free(topo);
}
END_TEST

/* Runs as nobody when root, for whom every file is open. */
static uid_t step_down(void)
{
    uid_t was = geteuid();

    ck_assert(was != 0 || seteuid(65534) == 0);
    return was;
}

static void step_up(uid_t was)
{
    ck_assert(was != 0 || seteuid(0) == 0);
}

START_TEST(denied_files)
{
    char *root = tree_make("mi300x-4"), path[PATH];
    const char *reason = "";
    dma_topo_t *topo = NULL;
    uid_t was;

    snprintf(path, sizeof(path), "%s/nodes/3/gpu_id", root);
    ck_assert_int_eq(chmod(path, 0), 0);
    snprintf(path, sizeof(path), "%s/nodes/4/properties", root);
    ck_assert_int_eq(chmod(path, 0), 0);
    snprintf(path, sizeof(path), "%s/nodes/5/io_links", root);
    ck_assert_int_eq(chmod(path, 0), 0);
    was = step_down();
    ck_assert_int_eq(dma_topo_read(root, &topo, &reason), DMA_OK);
    step_up(was);
    ck_assert_uint_eq(topo->ngpus, 2);
    ck_assert_uint_eq(topo->hidden, 2);
    ck_assert_uint_eq(topo->gpus[0].nlinks, 4);
    ck_assert_uint_eq(topo->gpus[1].nlinks, 0);
    dma_topo_free(topo);
    snprintf(path, sizeof(path), "%s/nodes/5/io_links", root);
    chmod(path, 0755);
    tree_remove(root);
}
END_TEST

START_TEST(no_gpu)
{
    char *root = tree_make("mi210-2"), path[PATH];
    uid_t was;

    nothing_there("/nonexistent/topology", "not loaded");
    tree_bar(root, "nodes/2/gpu_id");
    tree_bar(root, "nodes/3/gpu_id");
    nothing_there(root, "may be read");
    tree_write(root, "nodes/2/gpu_id", "0\n");
    tree_write(root, "nodes/3/gpu_id", "0\n");
    nothing_there(root, "there is no GPU");
    snprintf(path, sizeof(path), "%s/nodes", root);
    ck_assert_int_eq(chmod(path, 0), 0);
    was = step_down();
    nothing_there(root, "KFD topology");
    step_up(was);
    chmod(path, 0755);
    tree_remove(root);
}
END_TEST

#define PLAIN "location_id 3072\ndevice_id 29857\nnum_sdma_engines 2\nnum_sdma_xgmi_engines 14\n"

START_TEST(malformed)
{
    static const char *const bad[] = {
        "",
        "location_id 3072\n",
        "device_id 29857\nnum_sdma_engines 2\nnum_sdma_xgmi_engines 14\n",
        "location_id 3072\nnum_sdma_engines 2\nnum_sdma_xgmi_engines 14\n",
        "location_id 3072\ndevice_id 29857\nnum_sdma_xgmi_engines 14\n",
        "location_id 3072\ndevice_id 29857\nnum_sdma_engines 2\n",
        PLAIN "gfx_target_version nine\n",
        PLAIN "gfx_target_version\x20\n",
        PLAIN "gfx_target_version -1\n",
        PLAIN "gfx_target_version 1 2\n",
        PLAIN "gfx_target_version 4294967296\n",
        PLAIN "domain 18446744073709551616\n",
        PLAIN "domain 99999999999999999999999\n",
        PLAIN "num_sdma_engines 19\n", /* and 14: more than a mask has bits */
        PLAIN "num_sdma_engines 33\n",
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char *root = tree_make("mi210-2");
        dma_topo_t *topo;
        tree_write(root, "nodes/2/properties", bad[i]);
        topo = read_and_remove(root);
        ck_assert_msg(topo->ngpus == 1 && topo->hidden == 1 && topo->gpus[0].node == 3, "%s", bad[i]);
        dma_topo_free(topo);
    }
}
END_TEST

/* What older drivers do not say, strange lines and strange names do no harm. */
START_TEST(odd_but_fine)
{
    char *root = tree_make("mi210-2");
    dma_topo_t *topo;

    tree_write(root, "nodes/2/properties", "\n\nword\nkey value\n" PLAIN "domain 4294967295");
    tree_write(root, "nodes/generation_id", "2\n");
    tree_write(root, "nodes/2/io_links/1/properties", "type 11\nnode_to\n");
    tree_write(root, "nodes/2/io_links/x/properties", "type 11\nnode_to 3\n");
    tree_write(root, "nodes/99999999999/gpu_id", "1\n");
    topo = read_and_remove(root);
    ck_assert_uint_eq(topo->ngpus, 2);
    ck_assert_uint_eq(topo->hidden, 0);
    ck_assert_uint_eq(topo->gpus[0].domain, UINT32_MAX);
    ck_assert_uint_eq(topo->gpus[0].location, 3072);
    ck_assert_uint_eq(topo->gpus[0].version, 0);
    ck_assert_uint_eq(topo->gpus[0].nlinks, 1);
    ck_assert_uint_eq(topo->gpus[1].nlinks, 2);
    dma_topo_free(topo);
}
END_TEST

START_TEST(bounded)
{
    char *root = tree_make("mi210-2"), *text = malloc(DMA_TOPO_MAX_TEXT + 64), path[64];
    dma_topo_t *topo;

    /* the largest file is read to its last line, one byte more is not */
    memset(text, '\n', DMA_TOPO_MAX_TEXT);
    strcpy(text + DMA_TOPO_MAX_TEXT - 1 - strlen(PLAIN), PLAIN);
    tree_write(root, "nodes/2/properties", text);
    strcat(text, "\n");
    tree_write(root, "nodes/3/properties", text);
    for (int i = 0; i <= DMA_TOPO_MAX_LINKS; i++) {
        snprintf(path, sizeof(path), "nodes/2/io_links/%d/properties", i);
        tree_write(root, path, "type 11\nnode_to 3\n");
    }
    topo = read_and_remove(root);
    ck_assert_uint_eq(topo->ngpus, 1);
    ck_assert_uint_eq(topo->hidden, 1);
    ck_assert_uint_eq(topo->gpus[0].node, 2);
    ck_assert_uint_eq(topo->gpus[0].nlinks, 0);
    dma_topo_free(topo);
    free(text);

    root = tree_make("mi210-2");
    for (int i = 4; i < DMA_TOPO_MAX_NODES; i++) {
        snprintf(path, sizeof(path), "nodes/%d/gpu_id", i);
        tree_write(root, path, "0\n");
    }
    dma_topo_free(topo = NULL);
    ck_assert_int_eq(dma_topo_read(root, &topo, &(const char *){NULL}), DMA_OK);
    ck_assert_uint_eq(topo->ngpus, 2);
    dma_topo_free(topo);
    tree_write(root, "nodes/256/gpu_id", "0\n");
    nothing_there(root, "more than 256");
    tree_remove(root);
}
END_TEST

/* Random damage to the text of a GPU and of a link: never a crash, and what is read is within bounds. */
START_TEST(damaged)
{
    static const char alphabet[] = "0123456789 \n\t-x_abcdefghijklmnopqrstuvwxyz";
    char *root = tree_make("mi210-2"), path[PATH], text[8192], hurt[8192];
    const char *reason = "";
    unsigned seed = (unsigned)unit_seed();
    size_t n;
    FILE *f;

    for (int i = 0; i < 600; i++) {
        const char *file = i % 2 ? "nodes/2/properties" : "nodes/2/io_links/1/properties";
        dma_topo_t *topo = NULL;

        snprintf(path, sizeof(path), "%s/%s", root, file);
        f = fopen(path, "r");
        n = fread(text, 1, sizeof(text) - 1, f);
        fclose(f);
        text[n] = '\0';
        memcpy(hurt, text, n + 1);
        for (int k = rand_r(&seed) % 12; k >= 0; k--) {
            hurt[(size_t)rand_r(&seed) % n] = alphabet[(size_t)rand_r(&seed) % (sizeof(alphabet) - 1)];
        }
        if (rand_r(&seed) % 4 == 0) {
            hurt[(size_t)rand_r(&seed) % n] = '\0';
        }
        tree_write(root, file, hurt);
        ck_assert_int_eq(dma_topo_read(root, &topo, &reason), DMA_OK);
        ck_assert_uint_eq(topo->ngpus + topo->hidden, 2);
        for (uint32_t g = 0; g < topo->ngpus; g++) {
            ck_assert_uint_le(topo->gpus[g].host_engines + topo->gpus[g].xgmi_engines, 32);
            ck_assert_uint_le(topo->gpus[g].location, 0xffff);
            ck_assert_uint_le(topo->gpus[g].nlinks, 2);
        }
        dma_topo_free(topo);
        tree_write(root, file, text);
    }
    tree_remove(root);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sdma topology");

    unit_loop(suite, machine, 0, MACHINES, 10);
    unit_test(suite, links, 10);
    unit_test(suite, found_by_address, 10);
    unit_test(suite, found_by_partition, 10);
    unit_test(suite, hidden_devices, 10);
    unit_test(suite, denied_files, 10);
    unit_test(suite, no_gpu, 10);
    unit_test(suite, malformed, 10);
    unit_test(suite, odd_but_fine, 10);
    unit_test(suite, bounded, 20);
    unit_test(suite, damaged, 20);
    return unit_main(suite);
}
