/* The table of phases: a row for each operation, variant and size. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dma/plan.h"
#include "tools/trace/trace.h"

typedef struct item {
    const trace_call_t *call;
    int nranks;
    bool timed; /* by its engine */
} item_t;

const char *trace_coll_name(uint8_t coll)
{
    static const char *const names[] = {DMA_COLLS(DMA_COLL_TEXT)};

    return coll < sizeof(names) / sizeof(names[0]) ? names[coll] : "unknown";
}

const char *trace_by_name(uint8_t by)
{
    static const char *const names[] = {
        [DMA_TRACE_CORES_ENGINE] = "cores", [DMA_TRACE_GPU_ENGINE] = "engine", [DMA_TRACE_NETWORK] = "network"};

    return by < sizeof(names) / sizeof(names[0]) ? names[by] : "unknown";
}

/* ---- rows ---- */

static int64_t duration(const trace_call_t *call)
{
    return call->end - call->begin;
}

static int compare_rows(const item_t *a, const item_t *b)
{
    int order;

    if (a->call->coll != b->call->coll) {
        return a->call->coll < b->call->coll ? -1 : 1;
    }
    if (a->call->by != b->call->by) {
        return a->call->by < b->call->by ? -1 : 1;
    }
    if ((order = strcmp(a->call->variant, b->call->variant))) {
        return order;
    }
    if (a->nranks != b->nranks) {
        return a->nranks < b->nranks ? -1 : 1;
    }
    return (a->call->bytes > b->call->bytes) - (a->call->bytes < b->call->bytes);
}

static int compare_items(const void *p, const void *q)
{
    const item_t *a = p, *b = q;
    int order = compare_rows(a, b);

    order = order ? order : b->timed - a->timed;
    return order ? order : (duration(a->call) > duration(b->call)) - (duration(a->call) < duration(b->call));
}

static double sum(const trace_phases_t *p)
{
    return p->control + p->schedule + p->copy + p->synchronise;
}

/* Those whose engine has told times come first. If there are any, the others do not count, because nobody knows their
 * `schedule`. */
static size_t count_timed(const item_t *items, size_t n)
{
    size_t timed = 0;

    while (timed < n && items[timed].timed) {
        timed++;
    }
    return timed ? timed : n;
}

/* The mean over the middle half of calls that are in the order of their times. */
static trace_row_t row_of(const item_t *items, size_t n)
{
    size_t counted = count_timed(items, n), first = counted / 4, last = counted - counted / 4;
    double scale = 1e-3 / (double)(last - first);
    trace_row_t row = {.coll = items->call->coll,
                       .by = items->call->by,
                       .bytes = items->call->bytes,
                       .nranks = items->nranks,
                       .calls = n,
                       .counted = counted};

    memcpy(row.variant, items->call->variant, sizeof(row.variant));
    for (size_t i = first; i < last; i++) {
        const trace_phases_t *p = &items[i].call->phases;

        row.time += scale * (double)duration(items[i].call);
        row.phases.control += scale * p->control;
        row.phases.schedule += scale * p->schedule;
        row.phases.copy += scale * p->copy;
        row.phases.synchronise += scale * p->synchronise;
        row.phases.meeting += scale * p->meeting;
    }
    return row;
}

/* Calls of the ranks of one node may be part of a call over several nodes. Then they are not counted themselves. */
static size_t collect_calls(const trace_set_t *set, trace_table_t *table, item_t *items)
{
    size_t n = 0;

    for (size_t i = 0; i < set->n; i++) {
        for (size_t k = 0; k < set->files[i].ncomms; k++) {
            const trace_comm_t *comm = &set->files[i].comms[k];

            for (size_t c = 0; c < comm->ncalls && !comm->inner; c++) {
                const trace_call_t *call = &comm->calls[c];
                bool good = call->ended && !call->status;

                if (good && items) {
                    items[n] =
                        (item_t){.call = call, .nranks = comm->nranks, .timed = trace_has_times(&set->files[i], call)};
                }
                n += good;
                table->failed += !items && call->ended && call->status;
                table->open += !items && !call->ended;
            }
        }
    }
    return n;
}

bool trace_make_table(const trace_set_t *set, trace_table_t *table)
{
    size_t n, first = 0;
    item_t *items;

    *table = (trace_table_t){0};
    n = collect_calls(set, table, NULL);
    items = calloc(n ? n : 1, sizeof(*items));
    table->rows = calloc(n ? n : 1, sizeof(*table->rows));
    if (!items || !table->rows) {
        free(items);
        return false;
    }
    collect_calls(set, table, items);
    qsort(items, n, sizeof(*items), compare_items);
    for (size_t i = 1; i <= n; i++) {
        if (i == n || compare_rows(&items[first], &items[i])) {
            trace_row_t *row = &table->rows[table->n++];
            double off;

            *row = row_of(items + first, i - first);
            off = row->time > 0 ? fabs(sum(&row->phases) - row->time) / row->time : 0;
            table->worst = off > table->worst ? off : table->worst;
            first = i;
        }
    }
    free(items);
    return true;
}

/* ---- printing ---- */

static unsigned long long lost_events(const trace_set_t *set)
{
    unsigned long long lost = 0;

    for (size_t i = 0; i < set->n; i++) {
        lost += set->files[i].head.lost;
    }
    return lost;
}

static unsigned long long unnumbered_comms(const trace_set_t *set)
{
    unsigned long long most = 0;

    for (size_t i = 0; i < set->n; i++) {
        most = set->files[i].head.unnumbered > most ? set->files[i].head.unnumbered : most;
    }
    return most;
}

/* How exactly the clocks of engines are related to their hosts', in microseconds: the worst of all. Negative: there is none. */
static double engine_clock_error(const trace_set_t *set)
{
    double most = -1;

    for (size_t i = 0; i < set->n; i++) {
        const trace_file_t *file = &set->files[i];

        most = file->has_ticks && file->tick_error > most ? file->tick_error : most;
    }
    return most < 0 ? most : most / 1e3;
}

/* Rows of which only a part of the calls counts. */
static void print_counted(const trace_table_t *table)
{
    size_t calls = 0, counted = 0;

    for (size_t i = 0; i < table->n; i++) {
        if (table->rows[i].counted < table->rows[i].calls) {
            calls += table->rows[i].calls;
            counted += table->rows[i].counted;
        }
    }
    if (calls) {
        printf("Of %zu calls by engines, the %zu count whose times the engine has told (coll_dma_trace_stamps).\n",
               calls, counted);
    }
}

void trace_print_table(const trace_set_t *set, const trace_table_t *table)
{
    printf("%-12s %-8s %-16s %5s %10s %7s %10s  %9s %9s %9s %9s %9s\n", "operation", "by", "variant", "ranks", "bytes",
           "calls", "us", "control", "schedule", "copy", "synchr.", "(meeting)");
    for (size_t i = 0; i < table->n; i++) {
        const trace_row_t *r = &table->rows[i];

        printf("%-12s %-8s %-16s %5d %10llu %7zu %10.2f  %9.2f %9.2f %9.2f %9.2f %9.2f\n", trace_coll_name(r->coll),
               trace_by_name(r->by), r->variant, r->nranks, (unsigned long long)r->bytes, r->calls, r->time,
               r->phases.control, r->phases.schedule, r->phases.copy, r->phases.synchronise, r->phases.meeting);
    }
    printf("Of all ranks, in microseconds: means over the middle half of the calls. The phases of a row differ from "
           "its time "
           "by at most %.1f %%.\n",
           100 * table->worst);
    if (engine_clock_error(set) >= 0) {
        printf("The clocks of engines are known to %.1f us. So are `schedule` and `copy` by engines.\n",
               engine_clock_error(set));
    }
    print_counted(table);
    if (table->failed || table->open) {
        printf("Not counted: %zu calls that have failed, %zu that have not ended.\n", table->failed, table->open);
    }
    if (lost_events(set)) {
        printf("%llu events are missing, for which there was no room: raise coll_dma_trace_bytes.\n", lost_events(set));
    }
    if (unnumbered_comms(set)) {
        printf("%llu communicators are missing: a file holds the first %d of its process.\n", unnumbered_comms(set),
               DMA_TRACE_COMMS);
    }
}

void trace_print_json(const trace_set_t *set, const trace_table_t *table)
{
    printf("{\"version\":1,\"processes\":%zu,\"lost_events\":%llu,\"missing_communicators\":%llu,\"failed_calls\":%zu,"
           "\"open_calls\":%zu,\n ",
           set->n, lost_events(set), unnumbered_comms(set), table->failed, table->open);
    if (engine_clock_error(set) >= 0) {
        printf("\"engine_clock_us\":%.3f,", engine_clock_error(set));
    }
    printf("\"rows\":[");
    for (size_t i = 0; i < table->n; i++) {
        const trace_row_t *r = &table->rows[i];

        printf("%s\n  {\"operation\":\"%s\",\"by\":\"%s\",\"variant\":\"%s\",\"ranks\":%d,\"bytes\":%llu,\"calls\":%zu,"
               "\"counted\":%zu,\"us\":%.3f,\"control\":%.3f,\"schedule\":%.3f,\"copy\":%.3f,\"synchronise\":%.3f,"
               "\"meeting\":%.3f}",
               i ? "," : "", trace_coll_name(r->coll), trace_by_name(r->by), r->variant, r->nranks,
               (unsigned long long)r->bytes, r->calls, r->counted, r->time, r->phases.control, r->phases.schedule,
               r->phases.copy, r->phases.synchronise, r->phases.meeting);
    }
    printf("]}\n");
}
