/*
 * Makes partitioned requests: checks the arguments on all ranks together, divides blocks into units, and makes a persistent
 * collective for each unit. See parted.h.
 *
 * Units consist of atoms. An atom is the smallest part of a block that consists of whole partitions of every sender, and of
 * whole elements of every receiver.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "mpi_names.h"
#include "parted.h"

typedef enum mpix_parted_kind { ALLGATHER, ALLTOALL } mpix_parted_kind_t;

typedef struct mpix_parted_arguments {
    mpix_parted_kind_t kind;
    const void *sb;
    int sparts, scount;
    MPI_Datatype st;
    void *rb;
    int rparts, rcount;
    MPI_Datatype rt;
    MPI_Comm comm;
    MPI_Info info;
} mpix_parted_arguments_t;

/*
 * The facts that ranks combine: of each the maximum over all ranks. A fact that must be equal on all ranks is there a second
 * time, negated. Elements and bytes are those of a block. The last fact, ATOMS, is combined by the greatest common divisor.
 */
enum { ERROR, KIND, NO_KIND, SENDS, RECVS, MOST_BYTES, LEAST_BYTES, NO_ENGINES, ATOMS, FACTS };
typedef long long mpix_parted_facts_t[FACTS];

/* The result, equal on all ranks. */
typedef struct mpix_parted_shape {
    int atoms;      /* of a block */
    uint64_t bytes; /* of a block */
    bool hip;       /* all ranks have memory of HIP */
} mpix_parted_shape_t;

static int check(const mpix_parted_arguments_t *a, int ranks)
{
    bool in_place = a->sb == MPI_IN_PLACE;

    if (a->sparts < 1 || a->rparts < 1 || a->sparts > INT_MAX / ranks || a->rparts > INT_MAX / ranks) {
        return MPI_ERR_ARG;
    }
    if (a->rb == MPI_IN_PLACE) {
        return MPI_ERR_BUFFER;
    }
    if (a->rcount < 0 || (!in_place && a->scount < 0)) {
        return MPI_ERR_COUNT;
    }
    if (a->rt == MPI_DATATYPE_NULL || (!in_place && a->st == MPI_DATATYPE_NULL)) {
        return MPI_ERR_TYPE;
    }
    return MPI_SUCCESS;
}

static long long divisor(long long a, long long b)
{
    while (b != 0) {
        long long rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static void combine(void *from, void *to, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int k = 0; k < *count; k++) {
        const long long *theirs = ((mpix_parted_facts_t *)from)[k];
        long long *ours = ((mpix_parted_facts_t *)to)[k];

        for (int i = 0; i < ATOMS; i++) {
            ours[i] = ours[i] > theirs[i] ? ours[i] : theirs[i];
        }
        ours[ATOMS] = divisor(ours[ATOMS], theirs[ATOMS]);
    }
}

static long long size_of(MPI_Datatype type)
{
    MPI_Count size = 0;

    TYPE_SIZE(type, &size);
    return size;
}

static void state_facts(const mpix_parted_arguments_t *a, int error, long long *facts)
{
    long long sent, received;

    memset(facts, 0, sizeof(mpix_parted_facts_t));
    facts[ERROR] = error;
    if (error != MPI_SUCCESS) {
        return;
    }
    facts[KIND] = a->kind * 2 + (a->sb == MPI_IN_PLACE);
    facts[NO_KIND] = -facts[KIND];
    facts[RECVS] = facts[SENDS] = (long long)a->rparts * a->rcount;
    sent = received = facts[RECVS] * size_of(a->rt);
    if (a->sb != MPI_IN_PLACE) {
        facts[SENDS] = (long long)a->sparts * a->scount;
        sent = facts[SENDS] * size_of(a->st);
    }
    facts[MOST_BYTES] = sent > received ? sent : received;
    facts[LEAST_BYTES] = sent < received ? -sent : -received;
    facts[NO_ENGINES] = mpix_memory_type(a->sb, a->rb) != MPIX_QUEUE_HIP;
    facts[ATOMS] = divisor(a->sparts, facts[RECVS]);
}

static int exchange(long long *facts, MPI_Comm comm)
{
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_Op op = MPI_OP_NULL;
    int code = MPI_Type_contiguous(FACTS, MPI_LONG_LONG, &type);

    code = code == MPI_SUCCESS ? MPI_Type_commit(&type) : code;
    code = code == MPI_SUCCESS ? MPI_Op_create(combine, 1, &op) : code;
    code = code == MPI_SUCCESS ? MPI_Allreduce(MPI_IN_PLACE, facts, 1, type, op, comm) : code;
    if (op != MPI_OP_NULL) {
        MPI_Op_free(&op);
    }
    if (type != MPI_DATATYPE_NULL) {
        MPI_Type_free(&type);
    }
    return code;
}

/* Combines the facts of all ranks. The error and *shape are equal on all ranks. */
static int agree(const mpix_parted_arguments_t *a, int error, mpix_parted_shape_t *shape)
{
    mpix_parted_facts_t facts;
    int code;

    state_facts(a, error, facts);
    code = exchange(facts, a->comm);
    if (code != MPI_SUCCESS || facts[ERROR] != MPI_SUCCESS) {
        return code != MPI_SUCCESS ? code : (int)facts[ERROR];
    }
    if (facts[KIND] != -facts[NO_KIND]) {
        return MPI_ERR_ARG;
    }
    if (facts[MOST_BYTES] != -facts[LEAST_BYTES] || facts[SENDS] / facts[ATOMS] > INT_MAX ||
        facts[RECVS] / facts[ATOMS] > INT_MAX) {
        return MPI_ERR_COUNT;
    }
    *shape = (mpix_parted_shape_t){
        .atoms = (int)facts[ATOMS], .bytes = (uint64_t)facts[MOST_BYTES], .hip = !facts[NO_ENGINES]};
    return MPI_SUCCESS;
}

/* ---- a request ---- */

static size_t lines(size_t words)
{
    size_t line = MPIX_PARTED_LINE / sizeof(uint32_t);

    return (words + line - 1) / line * line;
}

static bool make_words(mpix_parted_t *parted, const mpix_parted_arguments_t *a)
{
    int type = mpix_memory_type(a->sb, a->rb);

    mpix_stream_here(&parted->device, type);
    parted->arrived_at = lines((size_t)parted->sparts);
    parted->bank_words = parted->arrived_at + lines((size_t)parted->ranks * (size_t)parted->rparts);
    parted->memory = mpix_memory_for_kernels(type, 2 * parted->bank_words * sizeof(*parted->words));
    if (parted->memory) {
        parted->words = parted->memory->place[0].at;
        parted->mapped = parted->memory->type == type;
    }
    return parted->memory != NULL;
}

static mpix_parted_t *make(const mpix_parted_arguments_t *a, int ranks, int units)
{
    mpix_parted_t *parted = calloc(1, sizeof(*parted));

    if (!parted) {
        return NULL;
    }
    *parted = (mpix_parted_t){.ranks = ranks, .sparts = a->sparts, .rparts = a->rparts, .nunits = units};
    parted->atoms[0] = parted->atoms[1] = MPI_DATATYPE_NULL;
    for (int i = 0; i < MPIX_MOST_UNITS; i++) {
        parted->requests[i] = MPI_REQUEST_NULL;
    }
    parted->parts = malloc((size_t)a->rparts * sizeof(*parted->parts));
    parted->counts[0] = malloc(3 * (size_t)ranks * sizeof(int));
    if (!parted->parts || !parted->counts[0] || !make_words(parted, a)) {
        mpix_parted_destroy(parted);
        return NULL;
    }
    parted->counts[1] = parted->counts[0] + ranks;
    parted->counts[2] = parted->counts[1] + ranks;
    return parted;
}

/* *extent: of the atom. */
static int make_atom(MPI_Datatype type, long long count, MPI_Datatype *atom, MPI_Aint *extent)
{
    MPI_Aint lower;
    int code = MPI_Type_contiguous((int)count, type, atom);

    code = code == MPI_SUCCESS ? MPI_Type_commit(atom) : code;
    code = code == MPI_SUCCESS ? MPI_Type_get_extent(type, &lower, extent) : code;
    *extent *= (MPI_Aint)count;
    return code;
}

static int make_collective(const mpix_parted_arguments_t *a, mpix_parted_t *parted, int unit, const char *send,
                           char *recv)
{
    const int *counts = parted->counts[unit == parted->nunits - 1], *places = parted->counts[2];
    MPI_Datatype sends = parted->atoms[0], recvs = parted->atoms[1];
    MPI_Request *request = &parted->requests[unit];

    if (a->kind == ALLGATHER) {
        return PERSISTENT(Allgatherv)(send, counts[0], sends, recv, counts, places, recvs, a->comm, a->info, request);
    }
    return PERSISTENT(Alltoallv)(send, counts, places, sends, recv, counts, places, recvs, a->comm, a->info, request);
}

/* Unit i has the atoms from `first` up to `end`. Its partitions follow from these numbers and not from bytes, because there may
 * be no data. */
static void set_unit(mpix_parted_t *parted, int i, long long first, long long end, long long atoms)
{
    mpix_unit_t *unit = &parted->units[i];

    unit->sends = (int)(first * parted->sparts / atoms);
    unit->sends_end = (int)(end * parted->sparts / atoms);
    unit->recvs = (int)(first * parted->rparts / atoms);
    unit->recvs_end = (int)((end * parted->rparts + atoms - 1) / atoms);
}

/* Makes the atoms of blocks sent and received, and gets their extents. */
static int make_atoms(const mpix_parted_arguments_t *a, mpix_parted_t *parted, int atoms, MPI_Aint extents[2])
{
    bool in_place = a->sb == MPI_IN_PLACE;
    long long sends = (long long)a->sparts * a->scount / atoms, recvs = (long long)a->rparts * a->rcount / atoms;
    int code = make_atom(a->rt, recvs, &parted->atoms[1], &extents[1]);

    if (code != MPI_SUCCESS) {
        return code;
    }
    return in_place ? make_atom(a->rt, recvs, &parted->atoms[0], &extents[0])
                    : make_atom(a->st, sends, &parted->atoms[0], &extents[0]);
}

static int make_units(const mpix_parted_arguments_t *a, mpix_parted_t *parted, int atoms, int group,
                      const MPI_Aint extents[2])
{
    bool in_place = a->sb == MPI_IN_PLACE;
    int code = MPI_SUCCESS;

    for (int r = 0; r < parted->ranks; r++) {
        parted->counts[0][r] = group;
        parted->counts[1][r] = atoms - (parted->nunits - 1) * group;
        parted->counts[2][r] = r * atoms;
    }
    for (int i = 0; code == MPI_SUCCESS && i < parted->nunits; i++) {
        MPI_Aint first = (MPI_Aint)i * group;

        code = make_collective(a, parted, i, in_place ? a->sb : (const char *)a->sb + first * extents[0],
                               (char *)a->rb + first * extents[1]);
    }
    return code;
}

/* The argument of make_whole. */
typedef struct mpix_parted_whole {
    const mpix_parted_arguments_t *a;
    const mpix_parted_t *parted;
    int atoms;
} mpix_parted_whole_t;

static int make_whole(void *arg, MPI_Info info, MPI_Request *request)
{
    const mpix_parted_whole_t *whole = arg;
    const mpix_parted_arguments_t *a = whole->a;
    MPI_Datatype sends = whole->parted->atoms[0], recvs = whole->parted->atoms[1];

    return a->kind == ALLGATHER
               ? PERSISTENT(Allgather)(a->sb, whole->atoms, sends, a->rb, whole->atoms, recvs, a->comm, info, request)
               : PERSISTENT(Alltoall)(a->sb, whole->atoms, sends, a->rb, whole->atoms, recvs, a->comm, info, request);
}

/* Makes one collective whose engines wait for the words, if the component can do that; otherwise one for each unit. */
static int make_collectives(const mpix_parted_arguments_t *a, mpix_parted_t *parted, const mpix_parted_shape_t *shape,
                            int group)
{
    mpix_parted_whole_t whole = {a, parted, shape->atoms};
    uint64_t ends[MPIX_MOST_UNITS];
    MPI_Aint extents[2] = {0, 0};
    int code = make_atoms(a, parted, shape->atoms, extents);

    for (int i = 0; i < parted->nunits; i++) {
        int first = i * group, end = i == parted->nunits - 1 ? shape->atoms : first + group;

        set_unit(parted, i, first, end, shape->atoms);
        ends[i] = shape->bytes / (uint64_t)shape->atoms * (uint64_t)end;
    }
    if (code == MPI_SUCCESS && shape->hip && shape->bytes > 0 && parted->ranks > 1) {
        code = mpix_parted_ask_engines(parted, shape->bytes, ends, a->comm, make_whole, &whole);
    }
    return code == MPI_SUCCESS && !parted->engines ? make_units(a, parted, shape->atoms, group, extents) : code;
}

/* All ranks make the request, or none does, except if MPI fails. */
static int make_request(const mpix_parted_arguments_t *a, int ranks, const mpix_parted_shape_t *shape,
                        MPI_Request *request)
{
    int group = (shape->atoms - 1) / MPIX_MOST_UNITS + 1, units = (shape->atoms - 1) / group + 1;
    int code, worst = MPI_SUCCESS;
    mpix_parted_t *parted = make(a, ranks, units);

    code = parted ? MPI_SUCCESS : MPI_ERR_NO_MEM;
    if (MPI_Allreduce(&code, &worst, 1, MPI_INT, MPI_MAX, a->comm) != MPI_SUCCESS) {
        worst = MPI_ERR_OTHER;
    }
    if (worst == MPI_SUCCESS) {
        worst = make_collectives(a, parted, shape, group);
    }
    if (worst != MPI_SUCCESS) {
        if (parted) {
            mpix_parted_destroy(parted);
        }
        return worst;
    }
    code = mpix_parted_add(parted);
    if (code == MPI_SUCCESS) {
        *request = parted->handle; /* from now on the program may free it */
    }
    return code;
}

static int error_class(int code)
{
    int class = MPI_SUCCESS;

    if (code != MPI_SUCCESS && MPI_Error_class(code, &class) != MPI_SUCCESS) {
        class = MPI_ERR_OTHER;
    }
    return class;
}

static int init(const mpix_parted_arguments_t *a, MPI_Request *request)
{
    int initialized = 0, finalized = 0, inter = 0, ranks = 0, code;
    mpix_parted_shape_t shape = {.atoms = 1};

    MPI_Initialized(&initialized);
    MPI_Finalized(&finalized);
    if (!initialized || finalized) {
        return MPI_ERR_OTHER;
    }
    if (a->comm == MPI_COMM_NULL || MPI_Comm_test_inter(a->comm, &inter) != MPI_SUCCESS || inter) {
        return MPI_ERR_COMM;
    }
    MPI_Comm_size(a->comm, &ranks);
    code = request ? check(a, ranks) : MPI_ERR_ARG;
    if (code == MPI_SUCCESS) {
        *request = MPI_REQUEST_NULL;
        code = error_class(mpix_parted_begin());
    }
    code = agree(a, code, &shape);
    return error_class(code == MPI_SUCCESS ? make_request(a, ranks, &shape, request) : code);
}

int MPIX_Pallgather_init(const void *sb, int sparts, int scount, MPI_Datatype st, void *rb, int rparts, int rcount,
                         MPI_Datatype rt, MPI_Comm comm, MPI_Info info, MPI_Request *request)
{
    mpix_parted_arguments_t arguments = {ALLGATHER, sb, sparts, scount, st, rb, rparts, rcount, rt, comm, info};

    return init(&arguments, request);
}

int MPIX_Palltoall_init(const void *sb, int sparts, int scount, MPI_Datatype st, void *rb, int rparts, int rcount,
                        MPI_Datatype rt, MPI_Comm comm, MPI_Info info, MPI_Request *request)
{
    mpix_parted_arguments_t arguments = {ALLTOALL, sb, sparts, scount, st, rb, rparts, rcount, rt, comm, info};

    return init(&arguments, request);
}
