/* The tables of docs/dev/cost-model.md. A test compares them with the document. */
#include <inttypes.h>
#include <string.h>

#include "tools/fit_model.h"

#define KIB UINT64_C(1024)

static const char *size_text(uint64_t bytes, char text[24])
{
    static const char units[] = " KMGT";
    size_t unit = 0;

    while (bytes >= KIB && bytes % KIB == 0 && unit + 2 < sizeof(units)) {
        bytes /= KIB;
        unit++;
    }
    snprintf(text, 24, unit ? "%" PRIu64 " %ciB" : "%" PRIu64, bytes, units[unit]);
    return text;
}

static void constants(const dma_gpu_profile_t *profile, const dma_gpu_profile_t *even, const dma_gpu_profile_t *odd,
                      FILE *out)
{
    fprintf(out, "| constant | value | from even rows | from odd rows | what it is |\n|---|---|---|---|---|\n");
#define ROW(name, value, help)                                                                                         \
    fprintf(out, "| `%s` | %" PRIu64 " | %" PRIu64 " | %" PRIu64 " | %s |\n", #name, profile->name, even->name,        \
            odd->name, help);
    DMA_GPU_PROFILE_FIELDS(ROW)
#undef ROW
}

static void speedups(const dma_gpu_profile_t *profile, const fit_data_t *data, bool gathers, FILE *out)
{
    bool heading = true;

    for (size_t r = 0; r < data->nrows; r++) {
        const fit_row_t *row = &data->rows[r];
        dma_gpu_shape_t base = fit_shape(row, 0);
        double predicted[FIT_COLUMNS];
        char size[24];

        if (row->gathers != gathers) {
            continue;
        }
        if (heading) {
            fprintf(out, "\n%s, predicted / measured speed-up over pcpy:\n\n| block | pcpy, us |",
                    gathers ? "All-gather" : "All-to-all");
            for (int i = 1; i < FIT_COLUMNS; i++) {
                fprintf(out, " %s%s |", fit_column_name(row, i), i % 2 ? " prelaunched" : "");
            }
            fprintf(out, "\n|---|---|---|---|---|---|---|\n");
            heading = false;
        }
        fit_predict(profile, row, predicted);
        fprintf(out, "| %s | %.1f |", size_text(row->bytes, size), (double)fit_cost(profile, &base) / 1e6);
        for (int i = 1; i < FIT_COLUMNS; i++) {
            fprintf(out, " %.2f / %.2f |", predicted[i], row->speedup[i]);
        }
        fprintf(out, "\n");
    }
}

static void error_line(const char *what, const fit_error_t *e, FILE *out)
{
    fprintf(out, "| %s | %zu | %.1f %% | %.1f %% | %.1f %% | %.0f %% |\n", what, e->cells, 100 * e->median,
            100 * e->p75, 100 * e->p90, 100 * e->most);
}

static void errors(const dma_gpu_profile_t *profile, const dma_gpu_profile_t *even, const dma_gpu_profile_t *odd,
                   const fit_data_t *data, FILE *out)
{
    fit_error_t all = fit_error(profile, data, FIT_ALL);
    fit_error_t on_odd = fit_error(even, data, ~FIT_EVEN), on_even = fit_error(odd, data, FIT_EVEN);

    fprintf(out,
            "\n| rows | cells | median | 75th percentile | 90th percentile | largest |\n|---|---|---|---|---|---|\n");
    error_line("all, fitted to all", &all, out);
    error_line("odd rows, fitted to the even ones", &on_odd, out);
    error_line("even rows, fitted to the odd ones", &on_even, out);
    fprintf(out, "\n| choice by prediction | best measured, or within 5 %% of it |\n|---|---|\n");
    fprintf(out, "| among all six: three variants, each with and without prelaunch | %zu of %zu rows |\n",
            fit_choices(profile, data, true, 0.05), data->nrows);
    fprintf(out, "| among the three variants without prelaunch | %zu of %zu rows |\n",
            fit_choices(profile, data, false, 0.05), data->nrows);
}

static void phases_of_copies(const dma_gpu_profile_t *profile, const fit_data_t *data, FILE *out)
{
    fprintf(out, "\nPhases of one copy, predicted / measured percent:\n\n"
                 "| bytes | control | schedule | copy | sync |\n|---|---|---|---|---|\n");
    for (size_t p = 0; p < data->nphases; p++) {
        const double *measured = data->phases[p].share;
        double share[4];
        char size[24];

        fit_predict_phase(profile, &data->phases[p], share);
        fprintf(out, "| %s |", size_text(data->phases[p].bytes, size));
        for (int i = 0; i < 4; i++) {
            fprintf(out, " %.0f / %.0f |", share[i], measured[i]);
        }
        fprintf(out, "\n");
    }
    fprintf(out, "\nLargest difference: %.1f points.\n", fit_phase_error(profile, data));
}

/* A GPU plan of 8 ranks on engines that have all families of packets and more queues than any variant uses. */
static dma_plan_req_t request(const dma_gpu_profile_t *profile, dma_coll_t coll, bool in_place, uint64_t bytes,
                              bool prelaunch)
{
    return (dma_plan_req_t){.coll = coll,
                            .nranks = FIT_GPUS,
                            .in_place = in_place,
                            .bytes = bytes,
                            .gpu = profile,
                            .prelaunch = prelaunch,
                            .bcst = true,
                            .max_queues = UINT32_MAX};
}

/* What the component chooses, and the cost of pcpy if pcpy can run too. */
static void choice(const dma_plan_req_t *req, FILE *out)
{
    dma_profile_t host = dma_profile_default(); /* GPU plans do not use it */
    int pcpy = dma_variant_find("pcpy");
    dma_choice_t best, plain;
    const char *reason;

    if (dma_plan_choose(&host, req, -1, &best, &reason) != DMA_OK) {
        fprintf(out, " - |");
        return;
    }
    fprintf(out, " %s %u%s, %.1f", dma_variants[best.variant]->name, best.queues, best.prelaunch ? " armed" : "",
            (double)best.cost_ps / 1e6);
    if ((int)best.variant != pcpy && dma_plan_choose(&host, req, pcpy, &plain, &reason) == DMA_OK && !reason) {
        fprintf(out, " (pcpy %.1f)", (double)plain.cost_ps / 1e6);
    }
    fprintf(out, " |");
}

static void predictions(const dma_gpu_profile_t *profile, FILE *out)
{
    static const dma_coll_t colls[] = {DMA_ALLGATHER, DMA_ALLGATHER, DMA_ALLTOALL, DMA_ALLTOALL};

    for (int prelaunch = 0; prelaunch < 2; prelaunch++) {
        fprintf(out,
                "\n%s:\n\n| block | all-gather in place | all-gather | all-to-all in place | all-to-all |\n"
                "|---|---|---|---|---|\n",
                prelaunch ? "Where engines accept programs before the start" : "Other calls");
        for (uint64_t bytes = 64; bytes <= 256 * KIB * KIB; bytes *= 4) {
            char size[24];

            fprintf(out, "| %s |", size_text(bytes, size));
            for (int i = 0; i < 4; i++) {
                dma_plan_req_t req = request(profile, colls[i], i % 2 == 0, bytes, prelaunch);

                choice(&req, out);
            }
            fprintf(out, "\n");
        }
    }
}

/* The same calls by one process for all GPUs, as measured, and by a process per GPU, as coll/dma runs them. */
static void both(const dma_gpu_profile_t *profile, FILE *out)
{
    static const struct {
        const char *name;
        dma_gpu_family_t family;
        int queues;
    } variants[] = {{"pcpy", DMA_GPU_COPY, FIT_GPUS - 1},
                    {"bcst", DMA_GPU_BCST, FIT_GPUS / 2},
                    {"b2b, 1 queue", DMA_GPU_COPY, 1},
                    {"swap", DMA_GPU_SWAP, FIT_GPUS / 2},
                    {"halves", DMA_GPU_HALVES, FIT_GPUS - 1}};

    fprintf(out, "\n| variant | artifact | artifact, prelaunched | process per GPU | process per GPU, prelaunched |\n"
                 "|---|---|---|---|---|\n");
    for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++) {
        fprintf(out, "| %s |", variants[i].name);
        for (int k = 0; k < 4; k++) {
            dma_gpu_shape_t shape = {.family = variants[i].family,
                                     .nranks = FIT_GPUS,
                                     .queues = variants[i].queues,
                                     .bytes = KIB,
                                     .prelaunch = k % 2};
            dma_gpu_work_t work = k < 2 ? fit_work(profile, &shape) : dma_gpu_work(profile, &shape);
            dma_gpu_phases_t phases = dma_gpu_phases(profile, &work, shape.prelaunch);

            fprintf(out, " %.1f |", (double)dma_gpu_phases_sum(&phases) / 1e6);
        }
        fprintf(out, "\n");
    }
}

void fit_report(const dma_gpu_profile_t *profile, const dma_gpu_profile_t *even, const dma_gpu_profile_t *odd,
                const fit_data_t *data, FILE *out)
{
    constants(profile, even, odd, out);
    errors(profile, even, odd, data, out);
    speedups(profile, data, true, out);
    speedups(profile, data, false, out);
    phases_of_copies(profile, data, out);
    both(profile, out);
    predictions(profile, out);
}

static void put_shares(const char *source, const char *what, uint64_t bytes, const double share[4], FILE *out)
{
    fprintf(out, "%s,%s,%" PRIu64 ",%.1f,%.1f,%.1f,%.1f\n", source, what, bytes, share[0], share[1], share[2],
            share[3]);
}

void fit_shares(const dma_gpu_profile_t *profile, const fit_data_t *data, FILE *out)
{
    double share[4];

    fprintf(out, "source,what,bytes,control,schedule,copy,synchronise\n");
    for (size_t i = 0; i < data->nphases; i++) {
        put_shares("published", "copy", data->phases[i].bytes, data->phases[i].share, out);
    }
    for (size_t i = 0; i < data->nphases; i++) {
        fit_predict_phase(profile, &data->phases[i], share);
        put_shares("model", "copy", data->phases[i].bytes, share, out);
    }
    for (size_t r = 0; r < data->nrows; r++) {
        for (int column = 0; column < FIT_COLUMNS; column++) {
            dma_gpu_shape_t shape = fit_shape(&data->rows[r], column);
            dma_gpu_work_t work = fit_work(profile, &shape);
            char what[64];

            fit_phase_shares(profile, &work, shape.prelaunch, share);
            snprintf(what, sizeof(what), "%s %s%s", data->rows[r].gathers ? "all-gather" : "all-to-all",
                     fit_column_name(&data->rows[r], column), shape.prelaunch ? " prelaunched" : "");
            put_shares("model", what, shape.bytes, share, out);
        }
    }
}
