/* The MI300X profile against the published measurements: its errors, how it was fitted, and what the documents say
 * about it. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libunit.h"
#include "tools/fit_model.h"

#define SPEEDUPS SOURCE_DIR "/test/data/mi300x_speedups.csv"
#define PHASES   SOURCE_DIR "/test/data/mi300x_phases.csv"

static fit_data_t data;
static dma_gpu_profile_t builtin;

/* Limits of a prediction's error: the median and the 90th percentile. */
static void within_limits(const dma_gpu_profile_t *profile, uint64_t rows, const char *what)
{
    fit_error_t e = fit_error(profile, &data, rows);

    ck_assert_msg(e.median <= 0.06 && e.p90 <= 0.20, "%s: median %.1f %%, 90th percentile %.1f %%", what,
                  100 * e.median, 100 * e.p90);
}

/* ---- what is counted ---- */

typedef struct counts {
    dma_gpu_family_t family;
    int nranks, queues;
    bool own;
    uint64_t packets, started, completions, further;
} counts_t;

/* As in the published measurements: one process makes all packets of all GPUs. */
START_TEST(counts_of_one_process_for_all)
{
    static const counts_t want[] = {
        {DMA_GPU_COPY, 8, 7, false, 56, 56, 56, 0}, {DMA_GPU_COPY, 8, 1, false, 56, 8, 8, 6},
        {DMA_GPU_COPY, 8, 3, false, 56, 24, 24, 2}, {DMA_GPU_BCST, 8, 4, false, 32, 32, 32, 0},
        {DMA_GPU_BCST, 8, 1, false, 32, 8, 8, 3},   {DMA_GPU_SWAP, 8, 4, false, 28, 28, 28, 0},
        {DMA_GPU_SWAP, 8, 2, false, 28, 16, 16, 1}, {DMA_GPU_HALVES, 8, 7, false, 56, 56, 56, 0},
        {DMA_GPU_COPY, 8, 7, true, 64, 64, 64, 0},  {DMA_GPU_COPY, 8, 1, true, 64, 16, 16, 6},
        {DMA_GPU_BCST, 7, 3, false, 21, 21, 21, 0}, {DMA_GPU_SWAP, 5, 2, false, 10, 10, 10, 0},
        {DMA_GPU_SWAP, 2, 1, false, 1, 1, 1, 0},    {DMA_GPU_COPY, 1, 1, false, 0, 0, 0, 0},
        {DMA_GPU_COPY, 1, 1, true, 1, 1, 1, 0},
    };

    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        const counts_t *w = &want[i];
        dma_gpu_shape_t shape = {.family = w->family, .nranks = w->nranks, .queues = w->queues, .own_block = w->own};
        dma_gpu_work_t work = fit_work(&builtin, &shape);

        ck_assert_uint_eq(work.packets, w->packets);
        ck_assert_uint_eq(work.queues, w->started);
        ck_assert_uint_eq(work.completions, w->completions);
        ck_assert_uint_eq(work.chain ? work.chain - 1 : 0, w->further);
    }
}
END_TEST

START_TEST(phases_of_a_copy)
{
    dma_gpu_profile_t p = {.link_mbps = 1000};
    dma_gpu_work_t work;
    dma_gpu_phases_t phases;

    p.build_ps = 1;
    p.doorbell_ps = 20;
    p.fetch_ps = 300;
    p.first_ps = 4000;
    p.fence_ps = 50000;
    p.observe_ps = 600000;
    p.trigger_ps = p.armed_ps = p.packet_ps = 77777777;
    work = fit_work_of_copy(&p, 7);
    phases = dma_gpu_phases(&p, &work, false);
    ck_assert_uint_eq(phases.control, 1);
    ck_assert_uint_eq(phases.schedule, 320);
    ck_assert_uint_eq(phases.copy, 11000);
    ck_assert_uint_eq(phases.sync, 650000);
}
END_TEST

/* ---- what is predicted ---- */

START_TEST(all_measurements_are_there)
{
    ck_assert_uint_eq(data.nrows, 44);
    ck_assert_uint_eq(data.nphases, 17);
    ck_assert_uint_eq(fit_error(&builtin, &data, FIT_ALL).cells, 220);
    ck_assert_uint_eq(data.rows[0].bytes, 128);
    ck_assert(data.rows[0].gathers && !data.rows[43].gathers);
}
END_TEST

START_TEST(chooses_the_best_measured_variant)
{
    ck_assert_uint_ge(fit_choices(&builtin, &data, true, 0.05), 43);
    ck_assert_uint_eq(fit_choices(&builtin, &data, false, 0.05), 44);
}
END_TEST

START_TEST(predicts_speedups)
{
    within_limits(&builtin, FIT_ALL, "all rows");
}
END_TEST

START_TEST(predicts_phases)
{
    ck_assert_double_le(fit_phase_error(&builtin, &data), 8);
}
END_TEST

/* Fitted to half of the rows, the model predicts and chooses equally well for the other half. */
START_TEST(predicts_rows_left_out)
{
    uint64_t rows = _i ? ~FIT_EVEN : FIT_EVEN;
    dma_gpu_profile_t half = fit_search(&data, rows, builtin.link_mbps, builtin.own_mbps);

    within_limits(&half, ~rows, _i ? "fitted to odd rows" : "fitted to even rows");
    ck_assert_double_le(fit_phase_error(&half, &data), 8);
    ck_assert_uint_ge(fit_choices(&half, &data, true, 0.05), 43);
    ck_assert_uint_eq(fit_choices(&half, &data, false, 0.05), 44);
}
END_TEST

/* Four parts. Each is predicted from the other three. The limits are for the average. */
START_TEST(predicts_quarters_left_out)
{
    double median = 0, p90 = 0;

    for (int k = 0; k < 4; k++) {
        uint64_t part = UINT64_C(0x1111111111111111) << k;
        dma_gpu_profile_t p = fit_search(&data, ~part, builtin.link_mbps, builtin.own_mbps);
        fit_error_t e = fit_error(&p, &data, part);
        median += e.median / 4;
        p90 += e.p90 / 4;
    }
    ck_assert_double_le(median, 0.06);
    ck_assert_double_le(p90, 0.20);
}
END_TEST

/* Four neighboring sizes of both operations, predicted only from smaller and larger ones: less accurate, as the
 * document says. */
START_TEST(predicts_runs_left_out)
{
    for (int first = 0; first < 22; first += 4) {
        uint64_t run = (UINT64_C(15) << first) & 0x3fffff, rows = run | run << 22;
        dma_gpu_profile_t p = fit_search(&data, ~rows, builtin.link_mbps, builtin.own_mbps);
        fit_error_t e = fit_error(&p, &data, rows);
        ck_assert_msg(e.median < 0.15 && e.p90 < 0.31, "rows from %d: median %.1f %%, 90th percentile %.1f %%", first,
                      100 * e.median, 100 * e.p90);
    }
}
END_TEST

/* The built-in constants are what the program fits to the measurements. The comparison is not exact, because the
 * logarithms of another machine may change the path of the search. Yet no better constants are found. */
START_TEST(the_builtin_profile_is_the_fit)
{
    dma_gpu_profile_t fitted = fit_search(&data, FIT_ALL, builtin.link_mbps, builtin.own_mbps);
    double ours = fit_loss(&builtin, &data, FIT_ALL), theirs = fit_loss(&fitted, &data, FIT_ALL);

    ck_assert_double_le(ours, theirs * 1.005);
    ck_assert_double_le(theirs, ours * 1.005);
}
END_TEST

START_TEST(the_profile_file_is_the_builtin_profile)
{
    dma_gpu_profile_t file;
    char error[200] = "";

    ck_assert_msg(dma_gpu_profile_load(SOURCE_DIR "/profiles/mi300x.txt", &file, error, sizeof(error)) == DMA_OK, "%s",
                  error);
    ck_assert_mem_eq(&file, &builtin, sizeof(file));
}
END_TEST

/* Every constant matters: half or twice of any fitted constant predicts worse. */
START_TEST(every_constant_is_needed)
{
    double least = fit_loss(&builtin, &data, FIT_ALL);

#define WORSE(name, value, help)                                                                                       \
    if (strcmp(#name, "own_mbps")) {                                                                                   \
        dma_gpu_profile_t p = builtin;                                                                                 \
        p.name = (value) / 2;                                                                                          \
        ck_assert_msg(fit_loss(&p, &data, FIT_ALL) > least * 1.005, "half of " #name " is as good");                   \
        p.name = (value)*2;                                                                                            \
        ck_assert_msg(fit_loss(&p, &data, FIT_ALL) > least * 1.005, "twice " #name " is as good");                     \
    }
    DMA_GPU_PROFILE_FIELDS(WORSE)
#undef WORSE
}
END_TEST

/* The rate of a link sets the scale and nothing else. */
START_TEST(another_link_rate)
{
    dma_gpu_profile_t slow = fit_search(&data, FIT_ALL, builtin.link_mbps / 4, builtin.own_mbps / 4);

    ck_assert_uint_eq(slow.link_mbps, builtin.link_mbps / 4);
    ck_assert_double_le(fit_loss(&slow, &data, FIT_ALL), 1.01 * fit_loss(&builtin, &data, FIT_ALL));
    ck_assert_uint_gt(slow.fence_ps, 3 * builtin.fence_ps);
    ck_assert_uint_lt(slow.fence_ps, 5 * builtin.fence_ps);
}
END_TEST

static char *contents(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text = calloc(1, 1 << 20);

    ck_assert_msg(file && text, "%s", path);
    ck_assert_uint_gt(fread(text, 1, (1 << 20) - 1, file), 0);
    fclose(file);
    return text;
}

/* The tables in the document are those of the built-in profile. The tables of the cross-validation depend on the
 * machine's logarithms, so they must only be there. */
START_TEST(the_document_has_these_tables)
{
    char *document = contents(SOURCE_DIR "/docs/dev/cost-model.md"), *report, *next, *line;
    size_t size, lines = 0;
    FILE *out = open_memstream(&report, &size);

    fit_report(&builtin, &builtin, &builtin, &data, out);
    fclose(out);
    for (next = report; (line = strsep(&next, "\n"));) {
        if (!strncmp(line, "| `", 3)) {
            *strchr(strchr(line, '|') + 1, '|') = '\0'; /* the name alone */
        } else if (strstr(line, "rows, fitted")) {
            line[strcspn(line, ",")] = '\0';
        }
        ck_assert_msg(strstr(document, line) != NULL, "docs/dev/cost-model.md lacks: %s", line);
        lines++;
    }
    ck_assert_uint_gt(lines, 100);
    free(report);
    free(document);
}
END_TEST

static void refuse(const char *speedups, const char *phases, const char *says)
{
    char paths[2][32] = {"/tmp/dma-fit-XXXXXX", "/tmp/dma-fit-XXXXXX"}, error[256] = "";
    const char *texts[2] = {speedups, phases};
    fit_data_t d = {.nrows = 99};

    for (int i = 0; i < 2; i++) {
        int fd = mkstemp(paths[i]);
        ck_assert_int_ge(fd, 0);
        ck_assert_int_eq(write(fd, texts[i], strlen(texts[i])), (ssize_t)strlen(texts[i]));
        close(fd);
    }
    ck_assert_msg(!fit_read(paths[0], paths[1], &d, error, sizeof(error)), "accepted");
    ck_assert_msg(strstr(error, says) != NULL, "expected \"%s\", got \"%s\"", says, error);
    ck_assert_uint_eq(d.nrows, 99);
    unlink(paths[0]);
    unlink(paths[1]);
}

START_TEST(measurements_that_cannot_be_read)
{
    const char *row = "heading\nallgather,1024,1,2,3,4,5,6\n", *phase = "heading\n1,25,25,25,25\n";
    char many[8192] = "heading\n", error[256] = "";
    fit_data_t d;

    refuse("heading\nallgather,1024,1,2,3,4,5\n", phase, "line 2: expected");
    refuse("# comment\nheading\nallgather,1024,1,2,3,4,5,6\nbroadcast,8,1,2,3,4,5,6\n", phase, "line 4: neither");
    refuse("heading\nalltoall,1024,1,2,0,4,5,6\n", phase, "line 2: a speed-up");
    refuse("heading\nalltoall,1024,1,2,nan,4,5,6\n", phase, "line 2: a speed-up");
    refuse("heading\n", phase, "no measurements");
    refuse(row, "heading\n1,2\n", "line 2: expected");
    refuse(row, "heading\n", "no measurements");
    for (int i = 0; i <= FIT_MOST_ROWS; i++) {
        strcat(many, strchr(row, '\n') + 1);
    }
    refuse(many, phase, "too many");
    ck_assert(!fit_read("/nonexistent", PHASES, &d, error, sizeof(error)));
    ck_assert_ptr_nonnull(strstr(error, "/nonexistent"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gpu_fit");
    char error[256];

    if (!fit_read(SPEEDUPS, PHASES, &data, error, sizeof(error))) {
        fprintf(stderr, "%s\n", error);
        return 1;
    }
    builtin = dma_gpu_profile_default();
    unit_test(suite, counts_of_one_process_for_all, 10);
    unit_test(suite, phases_of_a_copy, 10);
    unit_test(suite, all_measurements_are_there, 10);
    unit_test(suite, chooses_the_best_measured_variant, 10);
    unit_test(suite, predicts_speedups, 10);
    unit_test(suite, predicts_phases, 10);
    unit_loop(suite, predicts_rows_left_out, 0, 2, 20);
    unit_test(suite, predicts_quarters_left_out, 40);
    unit_test(suite, predicts_runs_left_out, 60);
    unit_test(suite, the_builtin_profile_is_the_fit, 20);
    unit_test(suite, the_profile_file_is_the_builtin_profile, 10);
    unit_test(suite, every_constant_is_needed, 10);
    unit_test(suite, another_link_rate, 20);
    unit_test(suite, the_document_has_these_tables, 10);
    unit_test(suite, measurements_that_cannot_be_read, 10);
    return unit_main(suite);
}
