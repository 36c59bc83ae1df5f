/*
 * What the cases covered: how many cases had a feature, and how many calls had a pair of features. Each rank counts what it
 * has seen. A pair is two features of different groups, among the first few groups.
 */
#include "sweep.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const place_names[] = {"out of place", "in place"};
static const char *const byte_names[] = {"0", "1-32", "33-96", "97-1K", "1K-16K", "16K-64K", "more than 64K"};
static const char *const size_names[] = {"1", "2", "3", "4", "5", "6", "7", "8", "9"};
static const char *const use_names[] = {"used before", "fresh", "freed while in use"};
static const char *const unit_names[] = {"char", "int", "double", "double+int+char", "char+double"};
static const char *const alike_names[] = {"alike", "different"};
static const char *const life_names[] = {"kept", "freed at once"};
static const char *const fence_names[] = {"between guards", "before a forbidden page"};
static const char *const after_names[] = {"compared", "overwritten"};
static const char *const start_names[] = {"none", "1", "2", "3"};
static const char *const order_names[] = {"differs between ranks", "with waits between calls"};
static const char *const completion_names[] = {"wait",    "waitall", "waitany",  "waitsome",      "test",
                                               "testall", "testany", "testsome", "test and start"};
static const char *const flight_names[] = {"2 or more over communicators", "2 or more over communicators, mixed forms"};
static const char *const thread_names[] = {"one", "several"};

static const struct {
    const char *name;
    int n;
    const char *const *values;
} groups[COVER_GROUPS] = {
#define GROUP(name, values)                                                                                            \
    {                                                                                                                  \
        name, (int)(sizeof(values) / sizeof(values[0])), values                                                        \
    }
    [COVER_OPERATION] = {"operation", 0, NULL}, /* the table of operations has their number and names */
    [COVER_FORM] = {"form", FORM_KINDS, form_names},
    [COVER_PLACE] = GROUP("buffers", place_names),
    [COVER_SEND_TYPE] = {"send type", TYPE_KINDS, type_kind_names},
    [COVER_RECV_TYPE] = {"receive type", TYPE_KINDS, type_kind_names},
    [COVER_COUNTS] = {"counts", COUNTS_KINDS, counts_kind_names},
    [COVER_BLOCKS] = {"blocks", BLOCKS_KINDS, blocks_kind_names},
    [COVER_BYTES] = GROUP("block bytes", byte_names),
    [COVER_COMM] = {"communicator", COMM_KINDS, comm_kind_names},
    [COVER_SIZE] = GROUP("ranks", size_names),
    [COVER_SHAPE] = {"case", SHAPE_KINDS, shape_names},
    [COVER_COMM_USE] = GROUP("communicators", use_names),
    [COVER_UNIT] = GROUP("unit", unit_names),
    [COVER_TYPES] = GROUP("types of the sides", alike_names),
    [COVER_TYPE_LIFE] = GROUP("derived types", life_names),
    [COVER_FENCE] = GROUP("receive buffer", fence_names),
    [COVER_SEND_AFTER] = GROUP("send buffer afterwards", after_names),
    [COVER_STARTS] = GROUP("starts of a persistent request", start_names),
    [COVER_SKEW] = {"skew", SKEW_KINDS, skew_names},
    [COVER_TRAFFIC] = {"user's messages", TRAFFIC_KINDS, traffic_kind_names},
    [COVER_ORDER] = GROUP("order", order_names),
    [COVER_COMPLETION] = GROUP("completed by", completion_names),
    [COVER_FLIGHT] = GROUP("in flight", flight_names),
    [COVER_THREADS] = GROUP("threads", thread_names),
#undef GROUP
};

static int values_of(cover_group_t group)
{
    return group == COVER_OPERATION ? nops : groups[group].n;
}

static const char *value_name(cover_group_t group, int value)
{
    return group == COVER_OPERATION ? ops[value].name : groups[group].values[value];
}

enum { MOST_FEATURES = 128 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int first_of[COVER_GROUPS + 1];
static long cases[MOST_FEATURES], pairs[MOST_FEATURES][MOST_FEATURES];
/* The last case of a thread that had the feature. */
static long seen_in[MOST_THREADS][MOST_FEATURES], epoch[MOST_THREADS];

static int feature(cover_group_t group, int value)
{
    if (first_of[COVER_GROUPS] == 0) {
        for (int g = 0; g < COVER_GROUPS; g++) {
            first_of[g + 1] = first_of[g] + values_of((cover_group_t)g);
        }
    }
    if (value < 0 || value >= values_of(group) || first_of[COVER_GROUPS] > MOST_FEATURES) {
        fprintf(stderr, "sweep: there is no %s number %d\n", groups[group].name, value);
        abort();
    }
    return first_of[group] + value;
}

void cover_next_case(void)
{
    pthread_mutex_lock(&lock);
    epoch[thread_index]++;
    pthread_mutex_unlock(&lock);
}

static void count(cover_group_t group, int value)
{
    int f = feature(group, value);
    if (seen_in[thread_index][f] != epoch[thread_index]) {
        seen_in[thread_index][f] = epoch[thread_index];
        cases[f]++;
    }
}

void cover(cover_group_t group, int value)
{
    pthread_mutex_lock(&lock);
    count(group, value);
    pthread_mutex_unlock(&lock);
}

static int byte_class(long bytes)
{
    static const long limits[] = {0, 32, 96, 1024, 16384, 65536};
    int class = 0;
    while (class < (int)(sizeof(limits) / sizeof(limits[0])) && bytes > limits[class]) {
        class ++;
    }
    return class;
}

void cover_call(const call_t *call, shape_t shape)
{
    const bool out = !call->in_place;
    const int values[COVER_PAIRED] = {
        [COVER_OPERATION] = (int)(call->op - ops),
        [COVER_FORM] = call->form,
        [COVER_PLACE] = call->in_place,
        [COVER_SEND_TYPE] = out ? (int)call->send.type.kind : -1,
        [COVER_RECV_TYPE] = call->recv.type.kind,
        [COVER_COUNTS] = call->op->vector ? (int)call->counts : -1,
        [COVER_BLOCKS] = call->op->vector ? (int)call->recv.blocks : -1,
        [COVER_BYTES] = byte_class(call_largest(call) * units[call->unit].bytes),
        [COVER_COMM] = call->comm->kind,
        [COVER_SIZE] = call->comm->size - 1,
        [COVER_SHAPE] = shape,
    };
    pthread_mutex_lock(&lock);
    for (int g = 0; g < COVER_PAIRED; g++) {
        if (values[g] < 0) {
            continue;
        }
        count((cover_group_t)g, values[g]);
        for (int h = 0; h < g; h++) {
            if (values[h] >= 0) {
                pairs[feature((cover_group_t)h, values[h])][feature((cover_group_t)g, values[g])]++;
            }
        }
    }
    count(COVER_UNIT, call->unit);
    count(COVER_FENCE, call->recv.buffer.map != NULL);
    count(COVER_TYPE_LIFE, !call->keep_types);
    if (out) {
        count(COVER_TYPES, call->send.type.kind != call->recv.type.kind);
        count(COVER_SEND_AFTER, call->scribble);
    }
    if (call->form == FORM_PERSISTENT) {
        count(COVER_STARTS, call->rounds);
    }
    pthread_mutex_unlock(&lock);
}

/* Pairs that cannot occur, or that depend on the pool of communicators, which is made once per run, are not possible. */
static bool possible(cover_group_t g, int a, cover_group_t h, int b)
{
    bool fixed = g == COVER_OPERATION && !ops[a].vector;
    return !(fixed && (h == COVER_COUNTS || h == COVER_BLOCKS)) &&
           !(g == COVER_PLACE && a == 1 && h == COVER_SEND_TYPE) && !(g == COVER_COMM && h == COVER_SIZE) &&
           /* only small calls if there are many calls or many ranks */
           !(g == COVER_BYTES && a >= 5 && (h == COVER_SIZE || (h == COVER_SHAPE && b == SHAPE_BURST)));
}

/* Types belong to a rank, so ranks see different features: the largest count of any rank counts. */
void cover_print(void)
{
    int n = first_of[COVER_GROUPS];
    long *most = malloc(sizeof(cases) + sizeof(pairs)), *pair = most + MOST_FEATURES;
    MPI_Reduce(cases, most, MOST_FEATURES, MPI_LONG, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(pairs, pair, MOST_FEATURES * MOST_FEATURES, MPI_LONG, MPI_MAX, 0, MPI_COMM_WORLD);
    for (cover_group_t g = 0; world_rank == 0 && n > 0 && g < COVER_GROUPS; g++) {
        for (int a = 0; a < values_of(g); a++) {
            printf("covers %s: %s: %ld\n", groups[g].name, value_name(g, a), most[first_of[g] + a]);
            for (cover_group_t h = g + 1; g < COVER_PAIRED && h < COVER_PAIRED; h++) {
                for (int b = 0; b < values_of(h); b++) {
                    if (possible(g, a, h, b)) {
                        printf("pair %s: %s, %s: %s: %ld\n", groups[g].name, value_name(g, a), groups[h].name,
                               value_name(h, b), pair[(first_of[g] + a) * MOST_FEATURES + first_of[h] + b]);
                    }
                }
            }
        }
    }
    free(most);
}
