/*
 * The record of what has been proven: what its parser makes of any text, which files are trusted, which sections count, and
 * that a GPU gets no packet that its record does not prove.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/gpu.h"
#include "engine/sdma/proof/record.h"
#include "engine/sdma/sdma.h"
#include "libgpu_fake.h"
#include "libkfd_fake.h"
#include "libsdma_tree.h"
#include "libunit.h"

#define MOST 8192 /* bytes of a text here */

static const dma_record_section_t example = {
    .words = {"90402", "0x74a1", "8", "24", "6.8.0-45-generic", "6.10.5", "1.14-abc", "kfd", "node17",
              "2026-08-01T12:00:00Z"},
    .results = {[DMA_RECORD_COPY] = {.state = DMA_RECORD_PROVEN},
                [DMA_RECORD_STRIDES] = {.state = DMA_RECORD_PROVEN},
                [DMA_RECORD_SWAP] = {.state = DMA_RECORD_FAILED, .reason = "hangs: engine 3"},
                [DMA_RECORD_POLL] = {.state = DMA_RECORD_NOT_TRIED, .reason = "it hung before"}},
};

/* The text of a record with these sections. */
static size_t print(const dma_record_section_t *sections, size_t n, char text[MOST])
{
    FILE *f = fmemopen(text, MOST, "w");
    size_t bytes;

    dma_record_print_head(f);
    for (size_t i = 0; i < n; i++) {
        dma_record_print(&sections[i], f);
    }
    fflush(f);
    bytes = (size_t)ftell(f);
    fclose(f);
    return bytes;
}

START_TEST(round_trip)
{
    dma_record_section_t sections[] = {example, example};
    char text[MOST], again[MOST], why[DMA_RECORD_WHY_BYTES] = "";
    dma_record_t record;
    size_t bytes;

    strcpy(sections[1].words[DMA_RECORD_FIRMWARE], "4294967295");
    bytes = print(sections, 2, text);
    ck_assert_msg(dma_record_parse(text, bytes, &record, why) == DMA_OK, "%s", why);
    ck_assert_uint_eq(record.n, 2);
    ck_assert_mem_eq(record.sections, sections, sizeof(sections));
    ck_assert_uint_eq(print(record.sections, 2, again), bytes);
    ck_assert_mem_eq(text, again, bytes);
    dma_record_free(&record);

    ck_assert_int_eq(dma_record_parse(text, print(sections, 0, text), &record, why), DMA_OK);
    ck_assert_uint_eq(record.n, 0);
    dma_record_free(&record);
}
END_TEST

/* ---- text that is no record ---- */

static void refused(const char *text, size_t bytes, const char *because)
{
    char why[DMA_RECORD_WHY_BYTES] = "";
    dma_record_t record;

    ck_assert_int_eq(dma_record_parse(text, bytes, &record, why), DMA_ERR_ARG);
    ck_assert_msg(strstr(why, because), "\"%s\", not \"%s\"", why, because);
    ck_assert_ptr_null(record.sections);
}

/* A record in which one text is replaced by another, which may have any bytes. */
static size_t edited(const char *from, const char *to, size_t to_bytes, char text[MOST])
{
    char whole[MOST], *at;
    size_t bytes = print(&example, 1, whole), before;

    whole[bytes] = '\0';
    at = strstr(whole, from);
    ck_assert_ptr_nonnull(at);
    before = (size_t)(at - whole);
    memcpy(text, whole, before);
    memcpy(text + before, to, to_bytes);
    memcpy(text + before + to_bytes, at + strlen(from), bytes - before - strlen(from));
    return bytes - strlen(from) + to_bytes;
}

START_TEST(broken_lines)
{
    static const struct {
        const char *from, *to, *because;
    } cases[] = {
        {"coll-dma-record 1", "coll-dma-record 2", "line 1: it does not begin with \"coll-dma-record 1\""},
        {"\nsection\n", "\nsections\n", "belongs to no section"},
        {"gfx        90402", "gfx        90402 1", "the value is not as it must be"},
        {"gfx        90402", "gfx", "the value is not as it must be"},
        {"node17", "node 17", "the value is not as it must be"},
        {"node17", "0123456789012345678901234567890123456789012345678901234567890123", "the value is not"},
        {"copy       proven", "copy       Proven", "neither"},
        {"copy       proven", "copy       proven: indeed", "neither"},
        {"copy       proven", "copy", "neither"},
        {"failed: hangs: engine 3", "failed", "neither"},
        {"failed: hangs: engine 3", "failed:", "neither"},
        {"hangs: engine 3",
         "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456",
         "neither"},
        {"swap  ", "swaps ", "there is no such name"},
        {"swap  ", "copy  ", "the name comes twice"},
        {"    broadcast  not tried\n", "", "the section is not complete"},
        {"    host       node17\n", "", "the section is not complete"},
        {"\nend\n", "\nend\nend\n", "no section has begun"},
        {"\nend\n", "\n", "the last section has no end"},
        {"\nend\n", "\nsection\n", "begins in another one"},
        {"\nend\n", "\nend\ngfx 1\n", "belongs to no section"},
        {"node17",
         "n\xc3\xb6"
         "de",
         "it is not plain text"},
        {"node17", "node\r17", "it is not plain text"},
    };
    char text[MOST];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        refused(text, edited(cases[i].from, cases[i].to, strlen(cases[i].to), text), cases[i].because);
    }
    refused(text, edited("node17", "a\0b", 3, text), "it is not plain text");
    memset(text, ' ', sizeof(text));
    refused(text, 256, "it is too long");
    refused(text, 0, "the file is empty");
    refused("\n", 1, "does not begin");
    ck_assert_uint_lt(edited("node17", "x", 1, text), MOST);
}
END_TEST

/* What the parser lets pass. */
START_TEST(other_forms)
{
    char text[MOST], why[DMA_RECORD_WHY_BYTES] = "";
    dma_record_t record;
    size_t bytes = edited("\nend\n", "\n \t \n\t# a comment\n  end \t", 25, text);

    ck_assert_msg(dma_record_parse(text, bytes, &record, why) == DMA_OK, "%s", why);
    ck_assert_mem_eq(record.sections, &example, sizeof(example));
    dma_record_free(&record);
}
END_TEST

START_TEST(too_many_sections)
{
    size_t one = 0, bytes = 0;
    char part[MOST], *text = malloc(MOST * 256);
    char why[DMA_RECORD_WHY_BYTES] = "";
    dma_record_t record;

    bytes = print(NULL, 0, text);
    one = print(&example, 1, part) - bytes;
    for (int i = 0; i < DMA_RECORD_MAX; i++, bytes += one) {
        memcpy(text + bytes, part + print(NULL, 0, (char[MOST]){0}), one);
    }
    ck_assert_msg(dma_record_parse(text, bytes, &record, why) == DMA_OK, "%s", why);
    ck_assert_uint_eq(record.n, DMA_RECORD_MAX);
    dma_record_free(&record);
    memcpy(text + bytes, text + bytes - one, one);
    refused(text, bytes + one, "there are too many sections");
    free(text);
}
END_TEST

/* A number below `bound`: splitmix64. */
static uint64_t below(uint64_t *state, uint64_t bound)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (z ^ z >> 31) % bound;
}

/* Any text: broken off, with changed, doubled and lost bytes, and noise. What is taken prints as it was meant. */
START_TEST(any_text)
{
    uint64_t random = unit_seed() + (uint64_t)_i;
    char text[MOST], copy[MOST], again[MOST], why[DMA_RECORD_WHY_BYTES];
    size_t whole = print((dma_record_section_t[]){example, example}, 2, text), taken = 0;
    dma_record_t record;

    for (int k = 0; k < 4000; k++) {
        size_t bytes = k % 2 ? whole : below(&random, whole);

        memcpy(copy, text, whole);
        for (uint64_t changes = below(&random, 4); changes && bytes; changes--) {
            copy[below(&random, bytes)] = k % 3 ? "\n #:endsection0x\t"[below(&random, 17)] : (char)below(&random, 256);
        }
        why[0] = '\0';
        if (dma_record_parse(copy, bytes, &record, why) == DMA_OK) {
            bytes = print(record.sections, record.n, again);
            dma_record_free(&record);
            ck_assert_int_eq(dma_record_parse(again, bytes, &record, why), DMA_OK);
            dma_record_free(&record);
            taken++;
        } else {
            ck_assert_msg(!strncmp(why, "line ", 5), "%s", why);
        }
    }
    ck_assert_uint_gt(taken, 100);
    ck_assert_uint_lt(taken, 3900);
}
END_TEST

/* ---- files ---- */

static void load_refused(const char *path, const char *because)
{
    char why[DMA_RECORD_WHY_BYTES] = "";
    dma_record_t record;

    ck_assert_int_ne(dma_record_load(path, &record, why), DMA_OK);
    ck_assert_msg(strstr(why, because), "\"%s\", not \"%s\"", why, because);
}

static char path_of_file[] = "/tmp/coll-dma-record.XXXXXX";

static void remove_file(void)
{
    unlink(path_of_file);
}

/* The path of a file with these sections, until the next call. */
static const char *record_file(const dma_record_section_t *sections, size_t n)
{
    static bool made;
    char text[MOST];
    size_t bytes = print(sections, n, text);
    int fd = made ? open(path_of_file, O_WRONLY | O_TRUNC) : mkstemp(path_of_file);

    made = made || !atexit(remove_file);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, bytes), (ssize_t)bytes);
    close(fd);
    return path_of_file;
}

START_TEST(trusted_files)
{
    static const mode_t trusted[] = {0644, 0600, 0400, 0444, 0755}, not_trusted[] = {0664, 0646, 0622, 0602, 0620};
    const char *path = record_file(&example, 1);
    char why[DMA_RECORD_WHY_BYTES] = "", link[256];
    dma_record_t record;

    for (size_t i = 0; i < 5; i++) {
        ck_assert_int_eq(chmod(path, trusted[i]), 0);
        ck_assert_msg(dma_record_load(path, &record, why) == DMA_OK, "%s", why);
        ck_assert_uint_eq(record.n, 1);
        dma_record_free(&record);
        ck_assert_int_eq(chmod(path, not_trusted[i]), 0);
        load_refused(path, "others than its owner may write it");
    }
    ck_assert_int_eq(chmod(path, 0644), 0);
    snprintf(link, sizeof(link), "%s.link", path);
    ck_assert_int_eq(symlink(path, link), 0);
    ck_assert_int_eq(dma_record_load(link, &record, why), DMA_OK); /* it is the file that counts */
    dma_record_free(&record);
    unlink(link);
    ck_assert_int_eq(mkfifo(link, 0600), 0);
    load_refused(link, "it is not a regular file");
    unlink(link);
    load_refused(link, "No such file");
    load_refused("/", "it is not a regular file");
    load_refused("/dev/null", "it is not a regular file");
    ck_assert_int_eq(truncate(path, DMA_RECORD_MAX_BYTES), 0);
    load_refused(path, "it cannot be read, or is too large");
    if (geteuid() == 0) {
        ck_assert_int_eq(truncate(path, 0), 0);
        load_refused(path, "line 0: the file is empty");
        ck_assert_int_eq(chown(path, 12345, 0), 0);
        load_refused(path, "it belongs neither to root nor to the user");
    }
}
END_TEST

/* ---- which sections count ---- */

START_TEST(whole_key)
{
    static const char *const others[DMA_RECORD_KEY] = {"90500",          "0x74a5", "1",         "25",
                                                       "6.8.0-45-gener", "-",      "1.14-abcd", "rocr"};
    static const char *const names[DMA_RECORD_KEY] = {"gfx",    "device", "xccs", "firmware",
                                                      "kernel", "driver", "rocr", "provider"};
    dma_record_section_t sections[] = {{.words = {"1", "2", "3", "4", "a", "b", "c", "d", "e", "f"}}, example};
    dma_record_t record = {.n = 2, .sections = sections};
    dma_record_result_t results[DMA_RECORD_FEATURES];
    char why[DMA_RECORD_WHY_BYTES] = "", because[DMA_RECORD_WHY_BYTES];

    for (int i = 0; i < DMA_RECORD_KEY; i++) {
        dma_record_key_t key = example.key;

        strcpy(key.words[i], others[i]);
        ck_assert_int_eq(dma_record_find(&record, &key, results, why), DMA_UNSUPPORTED);
        snprintf(because, sizeof(because), "its %s is %s, that of the section of node17 is %s", names[i], others[i],
                 example.words[i]);
        ck_assert_msg(strstr(why, because), "\"%s\", not \"%s\"", why, because);
    }
    ck_assert_int_eq(dma_record_find(&record, &example.key, results, why), DMA_OK);
    ck_assert_mem_eq(results, example.results, sizeof(results));
    record.n = 0;
    ck_assert_int_eq(dma_record_find(&record, &example.key, results, why), DMA_UNSUPPORTED);
    ck_assert_str_eq(why, "it has no section");
}
END_TEST

/* One node's failure counts for all with this key, in either order; another's proof counts where nothing failed. */
START_TEST(several_sections)
{
    dma_record_section_t sections[3] = {example, example, example};
    dma_record_t record = {.n = 3, .sections = sections};
    dma_record_result_t results[DMA_RECORD_FEATURES];
    char why[DMA_RECORD_WHY_BYTES];

    sections[_i].results[DMA_RECORD_STRIDES] = (dma_record_result_t){.state = DMA_RECORD_FAILED, .reason = "hangs"};
    sections[(_i + 1) % 3].results[DMA_RECORD_POLL] = (dma_record_result_t){.state = DMA_RECORD_PROVEN};
    strcpy(sections[(_i + 2) % 3].words[DMA_RECORD_FIRMWARE], "25");
    sections[(_i + 2) % 3].results[DMA_RECORD_BROADCAST] = (dma_record_result_t){.state = DMA_RECORD_PROVEN};
    sections[(_i + 2) % 3].results[DMA_RECORD_COPY] = (dma_record_result_t){.state = DMA_RECORD_FAILED};
    ck_assert_int_eq(dma_record_find(&record, &example.key, results, why), DMA_OK);
    ck_assert_int_eq(results[DMA_RECORD_COPY].state, DMA_RECORD_PROVEN);
    ck_assert_int_eq(results[DMA_RECORD_STRIDES].state, DMA_RECORD_FAILED);
    ck_assert_str_eq(results[DMA_RECORD_STRIDES].reason, "hangs");
    ck_assert_int_eq(results[DMA_RECORD_POLL].state, DMA_RECORD_PROVEN);
    ck_assert_int_eq(results[DMA_RECORD_BROADCAST].state, DMA_RECORD_NOT_TRIED);
}
END_TEST

/* ---- what a GPU gets ---- */

static dma_topo_t *machine;
static char *root, why_open[DMA_GPU_WHY_BYTES], advice[DMA_GPU_ADVICE_BYTES];
static dma_counters_t counters = DMA_COUNTERS_INIT;
static const char *wanted_queues; /* NULL: any provider */

static dma_status_t pci_of(int device, dma_gpu_pci_t *pci)
{
    const dma_topo_gpu_t *gpu = &machine->gpus[device];

    *pci = (dma_gpu_pci_t){.domain = gpu->domain,
                           .bus = gpu->location >> 8,
                           .device = gpu->location >> 3 & 31,
                           .function = gpu->location & 7,
                           .has_function = true};
    return DMA_OK;
}

static unsigned long counted(dma_reason_t reason)
{
    return dma_counters_read(&counters, DMA_COUNT_REASON + (int)reason, NULL);
}

/* Opens the engine on a GPU with this record, and closes it: those of its features that need a proof. */
static dma_status_t open_with(const char *record, uint32_t *features)
{
    fake_gpu_options_t gpus = {.devices = 1, .seed = 1};
    dma_gpu_runtime_t *rt = fake_gpu_start(&gpus);
    fake_options_t options = {.running = true, .seed = unit_seed(), .gen = EMU_SDMA_GFX942, .rt = rt};
    dma_gpu_config_t config = {.device = 0,
                               .rt = rt,
                               .record = record,
                               .timeout = 60,
                               .advice = advice,
                               .queues = wanted_queues,
                               .counters = &counters};
    dma_gpu_traits_t traits;
    dma_gpu_unit_t *unit;
    dma_status_t status;

    root = tree_make("mi300x-spx");
    options.topo = machine = tree_read("mi300x-spx");
    config.sysfs = root;
    rt->name = "hip";
    rt->device_pci = pci_of;
    why_open[0] = advice[0] = '\0';
    fake_begin(&options);
    status = dma_gpu_engine_sdma.open(&config, &unit, why_open);
    if (status == DMA_OK) {
        dma_gpu_engine_sdma.traits(unit, &traits);
        ck_assert_uint_eq(traits.features & DMA_GPU_EPOCH_WORDS, DMA_GPU_EPOCH_WORDS); /* needs no proof */
        *features = traits.features & ~(uint32_t)DMA_GPU_EPOCH_WORDS;
        dma_gpu_engine_sdma.close(unit);
    }
    fake_end();
    ck_assert_msg(fake_broken() == 0, "%s", fake_broken_text());
    fake_gpu_stop();
    tree_remove(root);
    dma_topo_free(machine);
    return status;
}

/* The section of such a GPU, with everything proven. */
static dma_record_section_t section_of_gpu(void)
{
    dma_record_section_t s = {.words = {[DMA_RECORD_HOST] = "here", [DMA_RECORD_DATE] = "now"}};
    dma_topo_t *topo = tree_read("mi300x-spx");

    dma_record_key_read(&topo->gpus[0], "kfd", &s.key);
    dma_topo_free(topo);
    for (int f = 0; f < DMA_RECORD_FEATURES; f++) {
        s.results[f].state = DMA_RECORD_PROVEN;
    }
    return s;
}

#define ALL_FEATURES (DMA_GPU_SWAP_PACKETS | DMA_GPU_BCST_PACKETS | DMA_GPU_SHAPES | DMA_GPU_PRELAUNCH)

/* Packets that are neither plain copies nor fences. */
static uint64_t unproven_packets(void)
{
    uint64_t n = 0;

    for (int kind = 0; kind < EMU_SDMA_PACKET_KINDS; kind++) {
        n += kind == EMU_SDMA_COPY || kind == EMU_SDMA_FENCE || kind == EMU_SDMA_NOP
                 ? 0
                 : fake_packets((emu_sdma_packet_kind_t)kind);
    }
    return n;
}

START_TEST(nothing_is_proven)
{
    dma_record_section_t other = section_of_gpu();
    uint32_t features = 1;

    ck_assert_int_eq(open_with("/nonexistent/record", &features), DMA_OK);
    ck_assert_uint_eq(features, 0);
    ck_assert_uint_eq(unproven_packets(), 0);
    ck_assert_uint_gt(fake_packets(EMU_SDMA_COPY), 0);
    ck_assert_msg(strstr(advice, "because /nonexistent/record proves no other packets (No such file") &&
                      strstr(advice, "coll_dma_accept"),
                  "%s", advice);

    strcpy(other.words[DMA_RECORD_FIRMWARE], "1");
    features = 1;
    ck_assert_int_eq(open_with(record_file(&other, 1), &features), DMA_OK);
    ck_assert_uint_eq(features, 0);
    ck_assert_uint_eq(unproven_packets(), 0);
    ck_assert_msg(strstr(advice, "its firmware is 0, that of the section of here is 1"), "%s", advice);
    ck_assert_uint_eq(counted(DMA_REASON_packets_unrecorded), 2);
}
END_TEST

START_TEST(all_is_proven)
{
    dma_record_section_t section = section_of_gpu();
    uint32_t features = 0;

    ck_assert_int_eq(open_with("all", &features), DMA_OK);
    ck_assert_uint_eq(features, ALL_FEATURES);
    ck_assert_str_eq(advice, "");
    features = 0;
    ck_assert_int_eq(open_with(record_file(&section, 1), &features), DMA_OK);
    ck_assert_uint_eq(features, ALL_FEATURES);
    ck_assert_uint_eq(fake_packets(EMU_SDMA_SWAP), 1);
    ck_assert_uint_gt(fake_packets(EMU_SDMA_POLL), 0);
    ck_assert_str_eq(advice, "");
}
END_TEST

/* Each feature alone is missing: its packets are not sent, and the others are used. */
START_TEST(one_is_not_proven)
{
    static const struct {
        dma_record_feature_t feature;
        emu_sdma_packet_kind_t packet;
        uint32_t lost;
    } cases[] = {
        {DMA_RECORD_STRIDES, EMU_SDMA_RECT, DMA_GPU_SHAPES},
        {DMA_RECORD_BROADCAST, EMU_SDMA_BROADCAST, DMA_GPU_BCST_PACKETS},
        {DMA_RECORD_SWAP, EMU_SDMA_SWAP, DMA_GPU_SWAP_PACKETS},
        {DMA_RECORD_POLL, EMU_SDMA_POLL, DMA_GPU_PRELAUNCH},
        {DMA_RECORD_POLL, EMU_SDMA_COND_EXE, DMA_GPU_PRELAUNCH}, /* who cannot wait is not armed */
        {DMA_RECORD_PRELAUNCH, EMU_SDMA_COND_EXE, DMA_GPU_PRELAUNCH},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        dma_record_section_t section = section_of_gpu();
        dma_record_result_t *result = &section.results[cases[i].feature];
        const char *wanted = i % 2 ? "it failed: hangs" : "it was not tried";
        uint32_t features = 0;

        *result = (dma_record_result_t){.state = i % 2 ? DMA_RECORD_FAILED : DMA_RECORD_NOT_TRIED};
        snprintf(result->reason, sizeof(result->reason), "%s", i % 2 ? "hangs" : "");
        ck_assert_int_eq(open_with(record_file(&section, 1), &features), DMA_OK);
        ck_assert_uint_eq(features, ALL_FEATURES & ~cases[i].lost);
        ck_assert_uint_eq(fake_packets(cases[i].packet), 0);
        ck_assert_msg(strstr(advice, wanted) && strstr(advice, dma_record_feature_name(cases[i].feature)), "%s",
                      advice);
        ck_assert_uint_eq(counted(DMA_REASON_packet_failed), (i + 1) / 2);
        ck_assert_uint_eq(counted(DMA_REASON_packets_unrecorded), i / 2 + 1);
    }
}
END_TEST

/* Where even copies failed, not one is sent. Another provider may be better. */
START_TEST(copies_failed)
{
    dma_record_section_t section = section_of_gpu();
    uint32_t features;

    section.results[DMA_RECORD_COPY] = (dma_record_result_t){.state = DMA_RECORD_FAILED, .reason = "hangs"};
    wanted_queues = "kfd";
    ck_assert_int_eq(open_with(record_file(&section, 1), &features), DMA_UNSUPPORTED);
    ck_assert_str_eq(why_open, "kfd: by its record copies failed: hangs");
    ck_assert_uint_eq(fake_counts.made, 0);
    wanted_queues = NULL;
    memset(section.words[DMA_RECORD_PROVIDER], 0, sizeof(dma_record_text_t));
    strcpy(section.words[DMA_RECORD_PROVIDER], "rocr");
    ck_assert_int_eq(open_with(record_file(&section, 1), &features), DMA_OK);
    ck_assert_uint_eq(features, 0);
    ck_assert_msg(strstr(why_open, "queues from kfd"), "%s", why_open);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("sdma_record");

    unit_test(s, round_trip, 20);
    unit_test(s, broken_lines, 20);
    unit_test(s, other_forms, 20);
    unit_test(s, too_many_sections, 20);
    unit_loop(s, any_text, 0, 5, 60);
    unit_test(s, trusted_files, 20);
    unit_test(s, whole_key, 20);
    unit_loop(s, several_sections, 0, 3, 20);
    unit_test(s, nothing_is_proven, 20);
    unit_test(s, all_is_proven, 20);
    unit_test(s, one_is_not_proven, 60);
    unit_test(s, copies_failed, 20);
    return unit_main(s);
}
