/* coll_dma_trace: what the calls of a job did, and when. See the manual page coll_dma_trace.1. */
#include <getopt.h>
#include <stdlib.h>

#include "tools/trace/trace.h"

/* Exit statuses. */
enum { DONE, FAILED, WRONG_USE };

static const char help[] = "usage: coll_dma_trace [OPTION...] DIR...\n"
                           "Reads what the processes of a job have written into these directories (mpirun --mca "
                           "coll_dma_trace DIR), and prints\n"
                           "the phases of its calls: control, schedule, copy, synchronise.\n"
                           "\n"
                           "  --chrome FILE  also write all events into this file, for Perfetto and chrome://tracing\n"
                           "  --plot FILE    also draw the phases into this file (SVG), with gnuplot\n"
                           "  --ranks        print what each rank did in place of that: which one is late, or slow\n"
                           "  --json         print the phases for programs\n"
                           "  --help, --version\n"
                           "\n"
                           "Exit status: 0 done, 1 something could not be read or written, 2 wrong use.\n";

typedef struct options {
    const char *chrome, *plot;
    bool json, ranks;
} options_t;

static bool print_ranks(const trace_set_t *set, const trace_messages_t *messages)
{
    trace_rank_t *ranks;
    bool good = trace_find_ranks(set, messages, &ranks);

    if (good) {
        trace_print_ranks(set, ranks);
    }
    free(ranks);
    return good;
}

static int evaluate(trace_set_t *set, const options_t *o)
{
    trace_messages_t messages;
    trace_table_t table = {0};
    bool good = trace_match(set, &messages);

    if (good) {
        trace_set_offsets(set, &messages);
        trace_compute_phases(set, &messages);
        good = trace_make_table(set, &table) && (!o->ranks || print_ranks(set, &messages));
    }
    if (!good) {
        fprintf(stderr, "coll_dma_trace: no memory\n");
    } else if (o->json) {
        trace_print_json(set, &table);
    } else if (!o->ranks) {
        trace_print_table(set, &table);
    }
    good =
        good && (!o->chrome || trace_write_chrome(set, o->chrome)) && (!o->plot || trace_write_plot(&table, o->plot));
    trace_messages_free(&messages);
    free(table.rows);
    return good ? DONE : FAILED;
}

int main(int argc, char **argv)
{
    enum { HELP = 1, VERSION, JSON, CHROME, PLOT, RANKS };
    static const struct option names[] = {{"help", no_argument, NULL, HELP},
                                          {"version", no_argument, NULL, VERSION},
                                          {"ranks", no_argument, NULL, RANKS},
                                          {"json", no_argument, NULL, JSON},
                                          {"chrome", required_argument, NULL, CHROME},
                                          {"plot", required_argument, NULL, PLOT},
                                          {0}};
    options_t o = {0};
    trace_set_t set;
    int option, status = FAILED;

    while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
        switch (option) {
        case HELP:
            fputs(help, stdout);
            return DONE;
        case VERSION:
            printf("coll_dma_trace %s\n", DMA_VERSION);
            return DONE;
        case JSON:
            o.json = true;
            break;
        case RANKS:
            o.ranks = true;
            break;
        case CHROME:
            o.chrome = optarg;
            break;
        case PLOT:
            o.plot = optarg;
            break;
        default:
            return WRONG_USE;
        }
    }
    if (o.ranks && o.json) {
        fprintf(stderr, "coll_dma_trace: --ranks has no JSON\n");
        return WRONG_USE;
    }
    if (optind == argc) {
        fprintf(stderr, "coll_dma_trace: which directory?\n");
        return WRONG_USE;
    }
    if (trace_read(&set, argv + optind, argc - optind)) {
        status = evaluate(&set, &o);
    }
    trace_free(&set);
    return status;
}
