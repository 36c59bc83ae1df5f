/*
 * Whose calls are timed: see bench.h. A rival among Open MPI's components has a communicator of its own, made with an info
 * key that prefers the component and excludes coll/dma. MPI's tool interface says which components are in the job.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench/bench.h"
#include "tools/bench/device.h"

/* What a component serves: bits. */
enum {
    BLOCKS = 1 << BENCH_BLOCKING,
    WAITS = 1 << BENCH_NONBLOCKING,
    STARTS = 1 << BENCH_PERSISTENT | 1 << BENCH_QUEUE,
    EACH = 1 << BENCH_FORMS,
    V = 2 * EACH
};
enum { FORMS = BLOCKS | WAITS | STARTS, ALL = FORMS | EACH | V };

/*
 * What components with an all-gather or an all-to-all can do in some version of Open MPI. MPI does not say which component
 * serves a call. If one of these does not serve it, Open MPI takes the next, whose times are then in its column.
 */
static const struct {
    const char *name;
    unsigned serves;
} known[] = {
    {"stock", ALL}, /* no component: what would be used without coll/dma */
    {"acoll", BLOCKS | EACH},
    {"basic", BLOCKS | EACH | V},
    {"han", BLOCKS | EACH | V},
    {"hcoll", BLOCKS | WAITS | EACH | V},
    {"libnbc", WAITS | STARTS | EACH | V},
    {"tuned", BLOCKS | EACH | V},
    {"ucc", BLOCKS | WAITS | EACH | V},
};
enum { KNOWN = sizeof(known) / sizeof(known[0]) };

/* Is there a variable coll_NAME_... of this component? Only components that Open MPI has opened have one. */
static bool is_present(const char *name)
{
    char prefix[64], variable[256];
    int n = 0;

    snprintf(prefix, sizeof(prefix), "coll_%s_", name);
    MPI_T_cvar_get_num(&n);
    for (int i = 0; i < n; i++) {
        int length = sizeof(variable), verbosity, binding, scope;
        MPI_Datatype type;
        MPI_T_enum values;

        if (MPI_T_cvar_get_info(i, variable, &length, &verbosity, &type, &values, NULL, NULL, &binding, &scope) ==
                MPI_SUCCESS &&
            !strncmp(variable, prefix, strlen(prefix))) {
            return true;
        }
    }
    return false;
}

/* ---- the list of rivals ---- */

static bool is_asked(const bench_t *b, const char *name)
{
    const char *list = b->o.rivals;
    size_t length = strlen(name);

    for (const char *at = strstr(list, name); at; at = strstr(at + 1, name)) {
        if ((at == list || at[-1] == ',') && (at[length] == ',' || !at[length])) {
            return true;
        }
    }
    return false;
}

static bool is_wanted(const bench_t *b, const char *name)
{
    return !strcmp(b->o.rivals, "all") || is_asked(b, name);
}

static bench_side_t *add_side(bench_t *b, const char *name, bench_kind_t kind)
{
    bench_side_t *side = &b->sides[b->nsides++];

    if (b->nsides > BENCH_SIDES) {
        bench_stop("more than %d rivals", BENCH_SIDES - 1);
    }
    *side = (bench_side_t){.kind = kind, .serves = ALL, .comm = MPI_COMM_NULL};
    snprintf(side->name, sizeof(side->name), "%s", name);
    return side;
}

static void add_component(bench_t *b, int which)
{
    const char *name = known[which].name;
    bench_side_t *side = add_side(b, name, BENCH_MPI);
    char preference[64];
    MPI_Info info;

    side->serves = known[which].serves;
    snprintf(preference, sizeof(preference), "%s%s^dma", which ? name : "", which ? "," : "");
    MPI_Info_create(&info);
    MPI_Info_set(info, "ompi_comm_coll_preference", preference);
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &side->comm);
    MPI_Info_free(&info);
}

typedef enum answer { NO, YES, UNKNOWN } answer_t;

/* Can this Open MPI work in the buffers? In device memory that it does not know, its own components end the process. */
static answer_t can_access(const bench_t *b)
{
    int (*query)(void) = NULL;

    if (!b->device) {
        return YES;
    }
    *(void **)&query = dlsym(RTLD_DEFAULT, device_is_cuda() ? "MPIX_Query_cuda_support" : "MPIX_Query_rocm_support");
    return !query ? UNKNOWN : query() ? YES : NO;
}

static void add_components(bench_t *b)
{
    answer_t access = can_access(b);

    if (access != YES && !strcmp(b->o.rivals, "all")) {
        bench_remark(b, "stock and components are left out: Open MPI %s",
                     access == NO ? "has no support for this device memory"
                                  : "does not say whether it supports this device memory (--rivals names them)");
        return;
    }
    for (int i = 0; i < KNOWN; i++) {
        bool present = i == 0 || is_present(known[i].name);

        if (is_asked(b, known[i].name) && !present) {
            bench_stop("the component %s is not in this job: see ompi_info, and --mca coll", known[i].name);
        }
        if (is_asked(b, known[i].name) && access == NO) {
            bench_stop("%s: Open MPI has no support for this device memory", known[i].name);
        }
        if (present && is_wanted(b, known[i].name)) {
            add_component(b, i);
        }
    }
}

static void add_nccl(bench_t *b)
{
    const char *why;

    if (!b->o.nccl) {
        return;
    }
    why = nccl_open(b);
    if (why) {
        bench_stop("%s: %s", b->o.nccl, why);
    }
    for (int m = 0; m < nccl_modes(); m++) {
        if (is_wanted(b, nccl_mode_name(m)) && nccl_mode_opened(m)) {
            add_side(b, nccl_mode_name(m), BENCH_NCCL)->mode = m;
        }
    }
}

static bool one_host(const bench_t *b)
{
    int most;

    MPI_Allreduce(&b->rank_on_host, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return most == b->size - 1;
}

/* A name that was asked for and that no side has. */
static void refuse_unknown(const bench_t *b)
{
    char name[32];

    for (const char *at = b->o.rivals; *at; at += *at == ',') {
        size_t length = strcspn(at, ",");
        bool found = false;

        snprintf(name, sizeof(name), "%.*s", (int)length, at);
        at += length;
        for (int s = 1; s < b->nsides; s++) {
            found |= !strcmp(b->sides[s].name, name);
        }
        if (!found && strcmp(name, "all") && strcmp(name, "none")) {
            bench_stop("there is no rival %s here", name);
        }
    }
}

static void open_queue(const bench_t *b)
{
    const char *why = bench_has_queue(&b->o) ? queue_open(b) : NULL;

    if (why) {
        bench_stop("a queue: %s", why);
    }
}

/* By the variable that Open MPI's launcher sets: to find out by a collective would set up MPI_COMM_WORLD, too. Without it they
 * may have several. */
static bool has_several_nodes(const bench_t *b)
{
    const char *ranks = getenv("OMPI_COMM_WORLD_LOCAL_SIZE");

    return !ranks || atoi(ranks) < b->size;
}

/* Before anything is timed: over several nodes, coll/dma leaves the first blocking calls of a communicator to others. */
static void set_up(const bench_t *b, MPI_Comm comm)
{
    int *all = malloc((size_t)b->size * sizeof(*all));
    MPI_Request request;

    if (!all) {
        bench_stop("no memory");
    }
    MPI_Iallgather(&b->size, 1, MPI_INT, all, 1, MPI_INT, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    free(all);
}

void bench_sides_make(bench_t *b)
{
    int provided;

    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    b->component = is_present("dma");
    MPI_Comm_dup(MPI_COMM_WORLD, &add_side(b, b->component ? "dma" : "default", BENCH_MPI)->comm);
    if (has_several_nodes(b)) {
        set_up(b, b->sides[0].comm);
    }
    add_components(b);
    MPI_T_finalize();
    if (is_asked(b, "bare")) {
        if (!one_host(b)) {
            bench_stop("--rivals bare: the ranks are on several hosts");
        }
        bare_open();
        add_side(b, "bare", BENCH_BARE);
    }
    if (is_asked(b, "nothing")) {
        add_side(b, "nothing", BENCH_NOTHING);
    }
    add_nccl(b);
    open_queue(b);
    refuse_unknown(b);
    if (!b->component) {
        bench_remark(b, "coll/dma is not in this job: \"default\" is what Open MPI uses without it");
    }
}

void bench_sides_free(bench_t *b)
{
    queue_close();
    for (int s = 0; s < b->nsides; s++) {
        if (b->sides[s].kind == BENCH_MPI) {
            MPI_Comm_free(&b->sides[s].comm);
        } else if (b->sides[s].kind == BENCH_BARE) {
            bare_close();
        }
    }
}

bool bench_side_serves(const bench_t *b, const bench_side_t *side, const bench_cell_t *cell)
{
    const bench_operation_t *op = cell->op;

    switch (side->kind) {
    case BENCH_MPI:
        return side->serves & 1u << op->form && (!op->to_each || side->serves & EACH) && (!op->v || side->serves & V);
    case BENCH_BARE:
        return !op->to_each && !op->v && op->form == BENCH_BLOCKING && cell->bytes <= BARE_MOST && !b->device &&
               b->element.bytes == 1;
    case BENCH_NCCL:
        return !op->v && op->form != BENCH_NONBLOCKING && b->element.bytes == 1 && !(op->to_each && b->o.in_place);
    default:
        return true;
    }
}
