/*
 * Fits a profile of DMA engines to measurements, or compares a profile with them.
 *
 *     fit_gpu [-l LINK_MBPS] SPEEDUPS PHASES     prints the profile that fits these measurements best
 *     fit_gpu -r PROFILE SPEEDUPS PHASES         prints the predictions of a profile and the measurements, in Markdown
 *     fit_gpu -s PROFILE SPEEDUPS PHASES         prints shares of phases, measured and predicted, as CSV (phases_figure.sh)
 *
 * For users who have measured another machine: the two files have the format of those in test/data. LINK_MBPS is the rate of
 * a large copy over one link, in MB/s. The measurements are ratios and do not contain it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/fit_model.h"

static int usage(void)
{
    fprintf(stderr, "usage: fit_gpu [-l LINK_MBPS] SPEEDUPS PHASES\n"
                    "       fit_gpu -r|-s PROFILE SPEEDUPS PHASES\n");
    return 2;
}

/* A profile in the format of plan/fields.h, with the help texts as comments. */
static void print_profile(const dma_gpu_profile_t *profile)
{
#define PRINT(name, value, help) printf("%s %" PRIu64 " # %s\n", #name, profile->name, help);
    DMA_GPU_PROFILE_FIELDS(PRINT)
#undef PRINT
}

static int fit(const fit_data_t *data, uint64_t link_mbps, uint64_t own_mbps)
{
    dma_gpu_profile_t profile = fit_search(data, FIT_ALL, link_mbps, own_mbps);
    fit_error_t e = fit_error(&profile, data, FIT_ALL);

    printf("# Profile of DMA engines, made by fit_gpu from %zu rows of speed-ups and %zu of phases.\n", data->nrows,
           data->nphases);
    printf("# Error: median %.1f %%, 90th percentile %.1f %%; best variant or within 5 %%: %zu rows; phases: %.1f "
           "points.\n",
           100 * e.median, 100 * e.p90, fit_choices(&profile, data, true, 0.05), fit_phase_error(&profile, data));
    print_profile(&profile);
    return 0;
}

static int report(const fit_data_t *data, const char *path, bool shares)
{
    dma_gpu_profile_t profile, even, odd;
    char error[256];

    if (dma_gpu_profile_load(path, &profile, error, sizeof(error)) != DMA_OK) {
        fprintf(stderr, "fit_gpu: %s: %s\n", path, error);
        return 1;
    }
    if (shares) {
        fit_shares(&profile, data, stdout);
        return 0;
    }
    even = fit_search(data, FIT_EVEN, profile.link_mbps, profile.own_mbps);
    odd = fit_search(data, ~FIT_EVEN, profile.link_mbps, profile.own_mbps);
    fit_report(&profile, &even, &odd, data, stdout);
    return 0;
}

/* A rate in MB/s, or 0: invalid, or outside the range of the search. */
static uint64_t rate_of(const char *text)
{
    char *end;
    uint64_t rate = strtoull(text, &end, 10);

    return *end || *text < '0' || *text > '9' || rate < 1000 || rate > 10000000 ? 0 : rate;
}

int main(int argc, char **argv)
{
    dma_gpu_profile_t builtin = dma_gpu_profile_default();
    uint64_t link_mbps = builtin.link_mbps, own_mbps = builtin.own_mbps, rate = 0;
    const char *profile = NULL;
    bool shares = false;
    fit_data_t data;
    char error[512];
    int option, status;

    while ((option = getopt(argc, argv, "l:r:s:")) != -1) {
        if (option == 'l' && (rate = rate_of(optarg))) {
            link_mbps = own_mbps = rate;
        } else if ((option == 'r' || option == 's') && !profile) {
            profile = optarg;
            shares = option == 's';
        } else {
            return usage();
        }
    }
    if (argc - optind != 2 || (rate && profile)) {
        return usage();
    }
    if (!fit_read(argv[optind], argv[optind + 1], &data, error, sizeof(error))) {
        fprintf(stderr, "fit_gpu: %s\n", error);
        return 1;
    }
    status = profile ? report(&data, profile, shares) : fit(&data, link_mbps, own_mbps);
    if (fflush(stdout) || ferror(stdout)) {
        fprintf(stderr, "fit_gpu: %s\n", strerror(errno));
        return 1;
    }
    return status;
}
