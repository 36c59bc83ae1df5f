/* The counters of a process: their list, and reading them. See dma/counters.h. */
#include "core/counters.h"

#include <stdio.h>

#include "dma/plan.h"
#include "engine/gpu.h"
#include "node/window.h"
#include "plan/cluster/cluster.h"

#define COMM        true
#define PROC        false
#define EVENTS      DMA_COUNTER_EVENTS
#define BYTES       DMA_COUNTER_BYTES
#define NANOSECONDS DMA_COUNTER_NANOSECONDS
#define LEVEL       DMA_COUNTER_LEVEL

static const struct row {
    const char *name, *help;
    bool of_comm;
    dma_counter_kind_t kind;
} rows[] = {
#define DMA_COUNTER(scope, kind_, name_, help_) {.name = #name_, .help = help_, .of_comm = scope, .kind = kind_},
#include "dma/counters_table.h"
#undef DMA_COUNTER
};

/* ---- the list of all counters ---- */

/* A family: a counter for each entry of a list that another file has. */
typedef struct family {
    int first;
    const char *(*name_of)(size_t i); /* NULL: the list is shorter */
    const char *prefix, *help;        /* of the counter: the name comes behind both */
} family_t;

static const char *variant_name(size_t i)
{
    return dma_variants[i] ? dma_variants[i]->name : NULL;
}

static const char *net_variant_name(size_t i)
{
    return dma_cluster_variants[i] ? dma_cluster_variants[i]->name : NULL;
}

static const char *engine_name(size_t i)
{
    return dma_gpu_engines[i] ? dma_gpu_engines[i]->name : NULL;
}

static const family_t families[] = {
    {DMA_COUNT_VARIANT, variant_name, "variant", "Calls that were carried out by the variant"},
    {DMA_COUNT_NET_VARIANT, net_variant_name, "net_variant",
     "Calls that were carried out between nodes by the variant"},
    {DMA_COUNT_ENGINE, engine_name, "engine",
     "Calls, or steps of calls inside a node, that were carried out by the GPU engine"},
};

static bool describe_member(const family_t *f, size_t i, dma_counter_t *counter)
{
    const char *name = f->name_of(i);

    if (!name) {
        return false;
    }
    *counter = (dma_counter_t){.which = f->first + (int)i, .of_comm = true, .kind = EVENTS};
    snprintf(counter->name, sizeof(counter->name), "%s_%s", f->prefix, name);
    snprintf(counter->help, sizeof(counter->help), "%s %s.", f->help, name);
    return true;
}

/* Reason i, from 0 on. */
static bool describe_reason(size_t i, dma_counter_t *counter)
{
    const dma_reason_row_t *row = &dma_reasons[i + 1];

    if (i + 1 >= DMA_REASON_COUNT) {
        return false;
    }
    *counter = (dma_counter_t){.which = DMA_COUNT_REASON + (int)i + 1, .of_comm = row->of_comm, .kind = EVENTS};
    snprintf(counter->name, sizeof(counter->name), "reason_%s", row->name);
    snprintf(counter->help, sizeof(counter->help), "Reason: %s. %s What to do: %s", row->text, row->effect,
             row->action);
    return true;
}

bool dma_counter_describe(size_t i, dma_counter_t *counter)
{
    size_t nrows = sizeof(rows) / sizeof(rows[0]);

    if (i < nrows) {
        *counter = (dma_counter_t){.which = (int)i, .of_comm = rows[i].of_comm, .kind = rows[i].kind};
        snprintf(counter->name, sizeof(counter->name), "%s", rows[i].name);
        snprintf(counter->help, sizeof(counter->help), "%s", rows[i].help);
        return true;
    }
    i -= nrows;
    for (size_t f = 0; f < sizeof(families) / sizeof(families[0]); f++) {
        size_t n = 0;

        while (families[f].name_of(n)) {
            n++;
        }
        if (i < n) {
            return describe_member(&families[f], i, counter);
        }
        i -= n;
    }
    return describe_reason(i, counter);
}

/* ---- the counts of communicators ---- */

/* Volatile: the holder of the communicator's lock may be counting. An aligned load of 64 bits is one load on the processors
 * that we support, so it yields the count before or after. */
static uint64_t load(const volatile uint64_t *count)
{
    return *count;
}

static uint64_t count_of(const dma_comm_counts_t *counts, int which)
{
    switch (which) {
    case DMA_COUNT_bytes_cores:
        return load(&counts->at[which]) + load(&counts->equal_bytes) * (uint64_t)counts->nranks;
    case DMA_COUNT_bytes_cross:
        return load(&counts->at[which]) + load(&counts->window->crossed);
    default:
        return load(&counts->at[which]);
    }
}

void dma_comm_counts_begin(dma_comm_counts_t *counts, dma_counters_t *counters)
{
    pthread_mutex_lock(&counters->lock);
    counts->next = counters->first;
    counts->link = &counters->first;
    if (counts->next) {
        counts->next->link = &counts->next;
    }
    counters->first = counts;
    pthread_mutex_unlock(&counters->lock);
}

void dma_comm_counts_end(dma_comm_counts_t *counts, dma_counters_t *counters, dma_comm_counts_t *parent)
{
    pthread_mutex_lock(&counters->lock);
    *counts->link = counts->next;
    if (counts->next) {
        counts->next->link = counts->link;
    }
    for (int i = 0; i < DMA_COUNTS; i++) {
        if (parent) {
            parent->at[i] += count_of(counts, i);
        } else {
            dma_counters_add(counters, i, count_of(counts, i));
        }
    }
    pthread_mutex_unlock(&counters->lock);
}

/* ---- reading ---- */

static uint64_t read_one(const dma_counters_t *counters, int which, const void *owner)
{
    uint64_t sum = owner ? 0 : atomic_load_explicit(&counters->at[which], memory_order_relaxed);

    for (const dma_comm_counts_t *c = counters->first; c; c = c->next) {
        sum += !owner || c->owner == owner ? count_of(c, which) : 0;
    }
    return sum;
}

/* Every run of a plan is counted as one of its variant, and every plan is built for a run. */
static uint64_t read_reused(const dma_counters_t *counters, const void *owner)
{
    uint64_t runs = 0, built = read_one(counters, DMA_COUNT_plans_built, owner);

    for (int i = DMA_COUNT_VARIANT; i < DMA_COUNT_ENGINE; i++) {
        runs += read_one(counters, i, owner);
    }
    return runs > built ? runs - built : 0;
}

uint64_t dma_counters_read(dma_counters_t *counters, int which, const void *owner)
{
    uint64_t value;

    pthread_mutex_lock(&counters->lock);
    value = which == DMA_COUNT_plans_reused ? read_reused(counters, owner) : read_one(counters, which, owner);
    pthread_mutex_unlock(&counters->lock);
    return value;
}
