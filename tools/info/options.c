/* The command line of coll_dma_info: see info.h and the manual page. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "tools/info/info.h"

enum { DONE, WRONG_USE = 2 };
enum { HELP = 1, VERSION, JSON, SELF_TEST, PREDICT, RANKS, BYTES, MEMORY, IN_PLACE, PERSISTENT, PROFILE, NODES };

#define MOST_RANKS 1048576
#define MOST_NODE  1024 /* ranks of a node */

static const char help[] =
    "usage: coll_dma_info [OPTION...]\n"
    "Says what this node is for coll/dma: what is found, which engine serves each GPU, and what is missing. Under "
    "mpirun\n"
    "also what the ranks agree on, and how their nodes differ.\n"
    "\n"
    "  --json             for programs\n"
    "  --self-test        also make a queue on each GPU and try the packets that its record proves, as a job does\n"
    "  --predict OP       the time that the cost model predicts for each variant of all-gather or all-to-all, which "
    "one\n"
    "                     is chosen, and why the others are not. With:\n"
    "    --bytes N        of a block, what one rank sends to one other; K, M or G behind it [64K]\n"
    "    --ranks N        [as many as there are GPUs; without, as processors that this process may use]\n"
    "    --memory KIND    host or device [device if there are GPUs]\n"
    "    --in-place       MPI_IN_PLACE\n"
    "    --persistent     MPI_Start of a persistent request, whose programs may be armed\n"
    "    --profile FILE   constants for GPU engines [coll_dma_gpu_profile, or the built-in ones of MI300X]\n"
    "    --nodes LAYOUT   several nodes: 4x8 (4 nodes, 8 ranks each), or the ranks of each: 8,8,6\n"
    "  --help, --version\n"
    "\n"
    "Parameters are those of Open MPI: OMPI_MCA_coll_dma_... in the environment, and its files; under mpirun also "
    "--mca.\n"
    "Exit status: 0; 1 no prediction is possible; 2 wrong use.\n";

/* A whole number in digits. */
static bool parse_whole(const char **text, uint64_t most, uint64_t *number)
{
    char *end;
    unsigned long long value;

    if (**text < '0' || **text > '9') {
        return false;
    }
    value = strtoull(*text, &end, 10);
    *text = end;
    *number = value;
    return value <= most;
}

bool info_parse_bytes(const char *text, uint64_t *bytes)
{
    static const char units[] = "KMG";
    const char *unit;
    unsigned shift = 0;

    if (!parse_whole(&text, UINT64_C(1) << 40, bytes)) {
        return false;
    }
    if (*text && (unit = strchr(units, *text >= 'a' ? *text - 'a' + 'A' : *text))) {
        shift = 10 * (unsigned)(unit - units + 1);
        text++;
    }
    *bytes <<= shift;
    return !*text && *bytes > 0 && *bytes <= UINT64_C(1) << 40;
}

/* "4x8" */
static bool parse_equal(const char *text, info_question_t *q)
{
    uint64_t nodes, size;

    if (!parse_whole(&text, INFO_NODES, &nodes) || *text++ != 'x' || !parse_whole(&text, MOST_NODE, &size) || *text ||
        !nodes || !size) {
        return false;
    }
    q->nodes = (int)nodes;
    for (int i = 0; i < q->nodes; i++) {
        q->sizes[i] = (int)size;
    }
    return true;
}

bool info_parse_nodes(const char *text, info_question_t *q)
{
    uint64_t size;

    if (strchr(text, 'x')) {
        return parse_equal(text, q);
    }
    for (q->nodes = 0; q->nodes < INFO_NODES; text++) {
        if (!parse_whole(&text, MOST_NODE, &size) || !size || (*text && *text != ',')) {
            return false;
        }
        q->sizes[q->nodes++] = (int)size;
        if (!*text) {
            return true;
        }
    }
    return false;
}

static bool parse_ranks(const char *text, int *ranks)
{
    uint64_t number;
    bool right = parse_whole(&text, MOST_NODE, &number) && !*text && number >= 2;

    *ranks = right ? (int)number : 0;
    return right;
}

static bool parse_operation(const char *text, info_question_t *q)
{
    static const char *const names[] = {DMA_COLLS(DMA_COLL_TEXT)}, *const others[] = {DMA_COLLS(DMA_COLL_FUNCTION)};
    static const dma_coll_t colls[] = {DMA_ALLGATHER, DMA_ALLTOALL};

    for (size_t i = 0; i < 2; i++) {
        if (!strcmp(text, names[colls[i]]) || !strcmp(text, others[colls[i]])) {
            q->coll = colls[i];
            q->asked = true;
            return true;
        }
    }
    return false;
}

/* Whether the user has chosen a memory: `memory` of the parser. */
static bool parse_memory(const char *text, info_options_t *o)
{
    o->question.device = !strcmp(text, "device");
    o->memory_given = true;
    return o->question.device || !strcmp(text, "host");
}

static bool set_option(info_options_t *o, int option, const char *value)
{
    info_question_t *q = &o->question;

    switch (option) {
    case JSON:
        return o->json = true;
    case SELF_TEST:
        return o->self_test = true;
    case PREDICT:
        return parse_operation(value, q);
    case RANKS:
        return parse_ranks(value, &q->ranks);
    case BYTES:
        return info_parse_bytes(value, &q->bytes);
    case MEMORY:
        return parse_memory(value, o);
    case IN_PLACE:
        return q->in_place = true;
    case PERSISTENT:
        return q->persistent = true;
    case PROFILE:
        q->profile = value;
        return true;
    case NODES:
        return info_parse_nodes(value, q);
    default:
        return false;
    }
}

static int wrong(bool speaks, const char *what, const char *text)
{
    if (speaks) {
        fprintf(stderr, "coll_dma_info: %s%s%s\n", what, text ? ": " : "", text ? text : "");
    }
    return WRONG_USE;
}

/* Options that cannot be combined. */
static const char *conflict(const info_options_t *o, bool details)
{
    const info_question_t *q = &o->question;
    int ranks = 0;

    for (int i = 0; i < q->nodes; i++) {
        ranks += q->sizes[i];
    }
    return !q->asked && details
               ? "--ranks, --bytes, --memory, --in-place, --persistent, --profile and --nodes need --predict"
           : q->nodes && q->ranks       ? "--nodes and --ranks exclude each other"
           : ranks > MOST_RANKS         ? "--nodes: there are too many ranks"
           : q->nodes && ranks < 2      ? "--nodes: there is one rank"
           : q->nodes == 1              ? "--nodes: one node is --ranks"
           : q->nodes > 1 && q->profile ? "--profile is for the engines of one node"
                                        : NULL;
}

int info_options_parse(info_options_t *o, int argc, char **argv, bool speaks)
{
    static const struct option names[] = {{"help", no_argument, NULL, HELP},
                                          {"version", no_argument, NULL, VERSION},
                                          {"json", no_argument, NULL, JSON},
                                          {"self-test", no_argument, NULL, SELF_TEST},
                                          {"predict", required_argument, NULL, PREDICT},
                                          {"ranks", required_argument, NULL, RANKS},
                                          {"bytes", required_argument, NULL, BYTES},
                                          {"memory", required_argument, NULL, MEMORY},
                                          {"in-place", no_argument, NULL, IN_PLACE},
                                          {"persistent", no_argument, NULL, PERSISTENT},
                                          {"profile", required_argument, NULL, PROFILE},
                                          {"nodes", required_argument, NULL, NODES},
                                          {0}};
    bool details = false;
    const char *both;
    int option, index;

    *o = (info_options_t){.question = {.bytes = 65536}};
    opterr = speaks;
    while ((option = getopt_long(argc, argv, "", names, &index)) != -1) {
        if (option == HELP || option == VERSION) {
            if (speaks) {
                fputs(option == HELP ? help : "coll_dma_info (coll/dma) " DMA_VERSION "\n", stdout);
            }
            return DONE;
        }
        if (option == '?') {
            return WRONG_USE;
        }
        details = details || option > PREDICT;
        if (!set_option(o, option, optarg)) {
            if (option == PREDICT) {
                return wrong(speaks, "--predict takes allgather or alltoall, not", optarg);
            }
            return wrong(speaks, names[index].name, optarg);
        }
    }
    if (optind < argc) {
        return wrong(speaks, "unknown argument", argv[optind]);
    }
    both = conflict(o, details);
    return both ? wrong(speaks, both, NULL) : -1;
}

bool info_selects(const char *coll)
{
    bool excludes = coll[0] == '^', named = false;

    if (!coll[0]) {
        return true;
    }
    for (coll += excludes; *coll; coll += coll[0] == ',') {
        size_t length = strcspn(coll, ",");

        named = named || (length == 3 && !strncmp(coll, "dma", 3));
        coll += length;
    }
    return named != excludes;
}
