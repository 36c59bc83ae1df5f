/* What coll_dma_info reads and predicts: its command line, the parameter coll, kinds of memory, both forms of its
 * report, and predictions for nodes that the test describes. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "libunit.h"
#include "tools/info/info.h"

/* ---- the command line ---- */

START_TEST(sizes)
{
    static const struct {
        const char *text;
        uint64_t bytes; /* 0: refused */
    } cases[] = {
        {"1", 1},
        {"64", 64},
        {"64K", 65536},
        {"64k", 65536},
        {"2M", 2097152},
        {"1G", 1073741824},
        {"0", 0},
        {"", 0},
        {"K", 0},
        {"-1", 0},
        {"1KB", 0},
        {"1.5K", 0},
        {" 1", 0},
        {"1T", 0},
        {"+1", 0},
        {"99999999999999999999", 0},
        {"1099511627777", 0},
        {"2000000000G", 0},
        {"1099511627776", UINT64_C(1) << 40},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t bytes = 0;
        bool right = info_parse_bytes(cases[i].text, &bytes);

        ck_assert_msg(right == (cases[i].bytes != 0), "%s", cases[i].text);
        ck_assert_msg(!right || bytes == cases[i].bytes, "%s", cases[i].text);
    }
}
END_TEST

START_TEST(layouts)
{
    static const char *const wrong[] = {"",   "x",  "2x",   "x2",  "0x2", "2x0", "2x2x2",  ",",
                                        "2,", ",2", "2,,2", "2,0", "2;2", "a",   "5000x2", "2x2000"};
    info_question_t *q = calloc(1, sizeof(*q));

    ck_assert(info_parse_nodes("4x8", q));
    ck_assert_int_eq(q->nodes, 4);
    ck_assert(q->sizes[0] == 8 && q->sizes[3] == 8);
    ck_assert(info_parse_nodes("8,6,1", q));
    ck_assert_int_eq(q->nodes, 3);
    ck_assert(q->sizes[0] == 8 && q->sizes[1] == 6 && q->sizes[2] == 1);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        ck_assert_msg(!info_parse_nodes(wrong[i], q), "%s", wrong[i]);
    }
    free(q);
}
END_TEST

/* The status of a command line; the words are separated by spaces. */
static int parse(info_options_t *o, const char *line)
{
    static char text[256]; /* options point into it */
    char *argv[16] = {"coll_dma_info"}, *rest;
    int argc = 1;

    snprintf(text, sizeof(text), "%s", line);
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        argv[argc++] = word;
    }
    optind = 0; /* begins again */
    return info_options_parse(o, argc, argv, false);
}

START_TEST(options)
{
    static const char *const wrong[] = {"--predict",
                                        "--predict bcast",
                                        "--bytes 1K",
                                        "--ranks 2",
                                        "--nodes 2x2",
                                        "--persistent",
                                        "x",
                                        "--predict alltoall --ranks 1",
                                        "--predict alltoall --ranks 2 --nodes 2x2",
                                        "--predict alltoall --memory gpu",
                                        "--predict alltoall --nodes 1x8",
                                        "--predict alltoall --nodes 8",
                                        "--predict alltoall --nodes 4000x1000",
                                        "--predict alltoall --nodes 2x2 --profile f",
                                        "--jsn"};
    info_options_t *o = calloc(1, sizeof(*o));

    ck_assert_int_eq(parse(o, ""), -1);
    ck_assert(!o->json && !o->self_test && !o->question.asked);
    ck_assert_int_eq(parse(o, "--json --self-test"), -1);
    ck_assert(o->json && o->self_test);
    ck_assert_int_eq(
        parse(o, "--predict all-to-all --ranks 8 --bytes 1M --memory device --in-place --persistent --profile f"), -1);
    ck_assert(o->question.asked && o->question.coll == DMA_ALLTOALL && o->question.ranks == 8);
    ck_assert(o->question.bytes == 1048576 && o->question.device && o->memory_given && o->question.in_place);
    ck_assert(o->question.persistent);
    ck_assert_str_eq(o->question.profile, "f");
    ck_assert_int_eq(parse(o, "--predict allgather --nodes 3,4"), -1);
    ck_assert(o->question.coll == DMA_ALLGATHER && o->question.nodes == 2 && o->question.bytes == 65536 &&
              !o->memory_given);
    ck_assert_int_eq(parse(o, "--help"), 0);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        ck_assert_msg(parse(o, wrong[i]) == 2, "%s", wrong[i]);
    }
    free(o);
}
END_TEST

START_TEST(selections)
{
    static const struct {
        const char *coll;
        bool selects;
    } cases[] = {{"", true},       {"dma", true},         {"dma,tuned", true}, {"tuned,dma", true},
                 {"tuned", false}, {"tuned,dmax", false}, {"^dma", false},     {"^tuned,dma", false},
                 {"^tuned", true}, {"^dmax", true}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_assert_msg(info_selects(cases[i].coll) == cases[i].selects, "%s", cases[i].coll);
    }
}
END_TEST

/* ---- packets ---- */

/* Programs that are armed wait in a queue. If a record does not prove that waiting works, they are not allowed. */
START_TEST(armed_programs_wait)
{
    dma_record_result_t results[DMA_RECORD_FEATURES];

    for (int f = 0; f < DMA_RECORD_FEATURES; f++) {
        results[f] = (dma_record_result_t){.state = DMA_RECORD_PROVEN};
    }
    ck_assert(dma_proof_limit(DMA_GEN_POLL | DMA_GEN_COND, results) == (DMA_GEN_POLL | DMA_GEN_COND));
    results[DMA_RECORD_POLL].state = DMA_RECORD_NOT_TRIED;
    ck_assert(dma_proof_limit(DMA_GEN_POLL | DMA_GEN_COND | DMA_GEN_SWAP, results) == DMA_GEN_SWAP);
    ck_assert(dma_proof_limit(UINT32_MAX, NULL) == 0);
}
END_TEST

/* ---- kinds of memory ---- */

START_TEST(kinds_of_memory)
{
    for (int k = 0; k < INFO_KINDS; k++) {
        info_kind_t kind = info_kind((dma_gpu_kind_t)k);

        ck_assert_ptr_nonnull(kind.name);
        ck_assert_msg(!strcmp(kind.way, "engines") == !kind.reason, "%s", kind.name);
    }
    ck_assert_str_eq(info_kind(DMA_GPU_DEVICE_PLAIN).way, "engines");
    ck_assert_str_eq(info_kind(DMA_GPU_DEVICE_POOL).way, "scratch");
    ck_assert_int_eq(info_kind(DMA_GPU_DEVICE_POOL).reason, DMA_REASON_memory_kind);
    ck_assert_str_eq(info_kind(DMA_GPU_MANAGED).way, "host");
    ck_assert_str_eq(info_kind(DMA_GPU_HOST).way, "host");
    ck_assert_str_eq(info_kind(DMA_GPU_UNKNOWN).way, "staged");
    ck_assert_int_eq(DMA_GPU_UNKNOWN, INFO_KINDS - 1);
}
END_TEST

/* ---- the two forms ---- */

static void put_something(out_t *o)
{
    out_say(o, 1, "number %d", 7);
    out_number(o, "number", 7);
    out_array(o, "list");
    out_text(o, NULL, "a\"\\\n\xff");
    out_object(o, NULL);
    out_bool(o, "yes", true);
    out_limit(o, "none", UINT64_MAX);
    out_close(o);
    out_close(o);
    out_text(o, "nothing", NULL);
    out_real(o, "real", 1.25);
}

static char *form(bool json)
{
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    out_t out;

    out_begin(&out, to, json);
    put_something(&out);
    out_end(&out);
    fclose(to);
    return text;
}

START_TEST(both_forms)
{
    char *text = form(false), *json = form(true);

    ck_assert_str_eq(text, "  number 7\n");
    ck_assert_str_eq(json, "{\n \"number\":7,\n \"list\":[\n  \"a\\\"\\\\\\u000a\\u00ff\",\n  {\n   \"yes\":true,\n   "
                           "\"none\":null}],\n \"nothing\":null,\n \"real\":1.250\n}\n");
    free(text);
    free(json);
}
END_TEST

/* ---- predictions ---- */

/* A node without GPUs, with eight processors. */
static info_t *node(dma_coll_t coll, int ranks, uint64_t bytes)
{
    info_t *info = calloc(1, sizeof(*info));

    dma_params_default(&info->mpi.params);
    info->mpi.params.measure = 0;
    info->host.cores = (dma_cores_t){.cpus = {0xff}, .online = 8};
    info->host.usable = info->host.online = 8;
    info->host.cross = true;
    info->options.question = (info_question_t){.asked = true, .coll = coll, .ranks = ranks, .bytes = bytes};
    return info;
}

static const info_variant_t *row(const info_t *info, const char *name)
{
    for (int i = 0; i < info->prediction.n; i++) {
        if (!strcmp(info->prediction.variants[i].name, name)) {
            return &info->prediction.variants[i];
        }
    }
    return NULL;
}

static const char *chosen(const info_t *info)
{
    return info->prediction.variants[info->prediction.chosen].name;
}

static bool assumes(const info_t *info, const char *part)
{
    for (int i = 0; i < info->prediction.nassumptions; i++) {
        if (strstr(info->prediction.assumptions[i], part)) {
            return true;
        }
    }
    return false;
}

/* The cheapest fitting variant is chosen, and every other one has a reason. */
START_TEST(host_memory)
{
    for (uint64_t bytes = 8; bytes <= 1 << 22; bytes *= 8) {
        info_t *info = node(DMA_ALLTOALL, 4, bytes);

        ck_assert_ptr_null(info_predict(info));
        ck_assert_int_eq(info->prediction.n, 5);
        for (int i = 0; i < info->prediction.n; i++) {
            const info_variant_t *v = &info->prediction.variants[i];

            ck_assert(v->fits == !v->reason);
            ck_assert(!v->fits || v->cost_ps >= row(info, chosen(info))->cost_ps);
        }
        ck_assert_str_eq(row(info, "host_pipe")->reason, "it does not do this operation");
        free(info);
    }
}
END_TEST

START_TEST(forced)
{
    info_t *info = node(DMA_ALLTOALL, 4, 512);

    strcpy(info->mpi.params.variant, "host_pair");
    ck_assert_ptr_null(info_predict(info));
    ck_assert_str_eq(chosen(info), "host_pair");
    ck_assert_str_eq(info->prediction.forced, "host_pair");
    ck_assert_ptr_null(info->prediction.forced_reason);
    free(info);
    info = node(DMA_ALLTOALL, 4, 512);
    strcpy(info->mpi.params.variant, "host_line");
    ck_assert_ptr_null(info_predict(info));
    ck_assert_str_eq(info->prediction.forced_reason, "the block is larger than its place in a descriptor");
    ck_assert_str_ne(chosen(info), "host_line");
    free(info);
    info = node(DMA_ALLTOALL, 4, 512);
    strcpy(info->mpi.params.variant, "pcpy");
    ck_assert_ptr_null(info_predict(info));
    ck_assert(assumes(info, "there is no variant \"pcpy\""));
    free(info);
}
END_TEST

/* Whether the ranks can read each other's memory: as on this machine, unless the parameter forbids it. */
START_TEST(cross_memory)
{
    for (int i = 0; i < 4; i++) {
        info_t *info = node(DMA_ALLTOALL, 2, 1 << 20);

        info->host.cross = i & 1;
        info->mpi.params.cross_memory = i >> 1;
        ck_assert_ptr_null(info_predict(info));
        ck_assert_int_eq(row(info, "host_reach")->fits, i == 3);
        free(info);
    }
}
END_TEST

/* If there are more ranks than processors, context switches cost time. */
START_TEST(processors)
{
    info_t *few = node(DMA_ALLGATHER, 8, 64), *many = node(DMA_ALLGATHER, 8, 64);

    few->host.cores.cpus[0] = 1;
    ck_assert_ptr_null(info_predict(few));
    ck_assert_ptr_null(info_predict(many));
    ck_assert(row(few, chosen(few))->cost_ps > 2 * row(many, chosen(many))->cost_ps);
    ck_assert(assumes(few, "more ranks than processors") && !assumes(many, "more ranks than processors"));
    free(few);
    free(many);
}
END_TEST

/* Without a GPU the engines are those of MI300X. Programs are armed only in starts of persistent requests. */
START_TEST(device_memory)
{
    info_t *call = node(DMA_ALLGATHER, 8, 4096), *start = node(DMA_ALLGATHER, 8, 4096),
           *off = node(DMA_ALLGATHER, 8, 4096);

    call->options.question.device = start->options.question.device = off->options.question.device = true;
    start->options.question.persistent = off->options.question.persistent = true;
    off->mpi.params.prelaunch = 0;
    ck_assert_ptr_null(info_predict(call));
    ck_assert_ptr_null(info_predict(start));
    ck_assert_ptr_null(info_predict(off));
    ck_assert_str_eq(call->prediction.model, "gpu");
    ck_assert(assumes(call, "engines as of MI300X"));
    ck_assert(row(call, "bcst")->fits && !row(call, "swap")->fits);
    ck_assert(row(start, "pcpy")->cost_ps < row(call, "pcpy")->cost_ps);
    ck_assert(row(off, "pcpy")->cost_ps == row(call, "pcpy")->cost_ps);
    ck_assert(row(start, "pcpy")->armed && !row(call, "pcpy")->armed && !row(off, "pcpy")->armed);
    free(call);
    free(start);
    free(off);
}
END_TEST

/* What all ranks can do is the least of all GPUs. */
START_TEST(unequal_gpus)
{
    info_t *info = node(DMA_ALLGATHER, 4, 4096);

    info->gpus.n = 2;
    info->gpus.gpus = calloc(2, sizeof(*info->gpus.gpus));
    for (int i = 0; i < 2; i++) {
        strcpy(info->gpus.gpus[i].engine, "sdma");
        info->gpus.gpus[i].traits = (dma_gpu_traits_t){.features = DMA_GPU_BCST_PACKETS, .max_ways = 16};
    }
    info->options.question.device = true;
    ck_assert_ptr_null(info_predict(info));
    ck_assert(row(info, "bcst")->fits && row(info, "pcpy")->fits && assumes(info, "more ranks than GPUs"));
    info->gpus.gpus[1].traits = (dma_gpu_traits_t){.max_ways = 1};
    info->prediction = (info_prediction_t){0};
    ck_assert_ptr_null(info_predict(info));
    ck_assert_str_eq(row(info, "bcst")->reason, "not all engines write two places at once");
    ck_assert_str_eq(row(info, "pcpy")->reason, "the engine has fewer queues than there are peers");
    info->gpus.gpus[1].engine[0] = '\0'; /* no engine: the host */
    info->prediction = (info_prediction_t){0};
    ck_assert_ptr_null(info_predict(info));
    ck_assert_str_eq(info->prediction.model, "host");
    free(info->gpus.gpus);
    free(info);
}
END_TEST

/* As in a job, whose engines then exchange by three copies. */
START_TEST(gpus_without_swap)
{
    info_t *info = node(DMA_ALLTOALL, 2, 65536);
    uint64_t by_swap;

    info->gpus.n = 1;
    info->gpus.gpus = calloc(1, sizeof(*info->gpus.gpus));
    strcpy(info->gpus.gpus[0].engine, "sdma");
    info->gpus.gpus[0].traits = (dma_gpu_traits_t){.features = DMA_GPU_SWAP_PACKETS, .max_ways = 16};
    info->options.question.device = info->options.question.in_place = true;
    ck_assert_ptr_null(info_predict(info));
    ck_assert(row(info, "swap")->fits && !assumes(info, "three copies"));
    by_swap = row(info, "swap")->cost_ps;
    info->gpus.gpus[0].traits.features = 0;
    info->prediction = (info_prediction_t){0};
    ck_assert_ptr_null(info_predict(info));
    ck_assert(row(info, "swap")->fits && assumes(info, "no swap") && assumes(info, "three copies"));
    ck_assert_uint_gt(row(info, "swap")->cost_ps, by_swap);
    free(info->gpus.gpus);
    free(info);
}
END_TEST

START_TEST(several_nodes)
{
    info_t *info = node(DMA_ALLGATHER, 0, 1024);

    ck_assert(info_parse_nodes("3,4", &info->options.question));
    ck_assert_ptr_null(info_predict(info));
    ck_assert_str_eq(info->prediction.model, "cluster");
    ck_assert_str_eq(row(info, "cluster_rails")->reason, "nodes have different numbers of ranks");
    ck_assert(row(info, chosen(info))->fits && assumes(info, "400 Gbit/s"));
    free(info);
}
END_TEST

START_TEST(wrong_profile)
{
    info_t *info = node(DMA_ALLGATHER, 2, 1024);

    info->options.question.profile = unit_file("build_ps 1\n");
    ck_assert_ptr_nonnull(strstr(info_predict(info), "--profile"));
    free(info);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("info");

    unit_test(suite, sizes, 10);
    unit_test(suite, layouts, 10);
    unit_test(suite, options, 10);
    unit_test(suite, selections, 10);
    unit_test(suite, armed_programs_wait, 10);
    unit_test(suite, kinds_of_memory, 10);
    unit_test(suite, both_forms, 10);
    unit_test(suite, host_memory, 10);
    unit_test(suite, forced, 10);
    unit_test(suite, cross_memory, 10);
    unit_test(suite, processors, 10);
    unit_test(suite, device_memory, 10);
    unit_test(suite, unequal_gpus, 10);
    unit_test(suite, gpus_without_swap, 10);
    unit_test(suite, several_nodes, 10);
    unit_test(suite, wrong_profile, 10);
    return unit_main(suite);
}
