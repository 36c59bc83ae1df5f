/*
 * vectors [-d] [-s SEED] [-n ROUNDS] [-k SEND,RECV] [-o OPERATION] [-b ELEMENTS]: collectives of derived datatypes, checked
 * against their definition. A rank must receive what the other has sent, packed and unpacked by MPI_Pack and MPI_Unpack in
 * host memory, and nothing else in its buffer may change.
 *
 * With -d all buffers are in device memory: the program behaves as one that uses HIP. Every rank draws types of its own, so
 * that rows of one length go to rows of another length. What travels between two ranks is drawn alike on both. -k: all types
 * are of these two kinds (numbers below). -o: all calls are of one operation. -b: all units have this number of elements.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "verify.h"

enum { RANKS = 16, MARGIN = 64 };
enum { VECTOR, HVECTOR, CONTINUING, COLUMN, GAPS, NESTED, NEGATIVE, INDEXED, SUBARRAY, PLAIN, KINDS };
enum { ALLGATHER, ALLGATHERV, ALLTOALL, ALLTOALLV, OPS };
enum { BLOCKING, NONBLOCKING, PERSISTENT_FORM, FORMS };

static const char *const kind_names[] = {"vector", "hvector",  "continuing", "column",   "gaps",
                                         "nested", "negative", "indexed",    "subarray", "plain"};
static const char *const op_names[] = {"Allgather", "Allgatherv", "Alltoall", "Alltoallv"};

/* A buffer with a block for each of n ranks, in host memory and, with -d, also in device memory. */
typedef struct side {
    int n, kind;
    int counts[RANKS], displs[RANKS];
    MPI_Datatype type;
    size_t bytes;
    char *host, *device; /* begin of the memory */
    ptrdiff_t origin;    /* of the buffer's address in it */
} side_t;

typedef struct round {
    int op, form;
    bool in_place;
    unsigned salt;
    int unit;     /* basic elements; every block has a multiple of this number */
    int multiple; /* of all blocks, or about that many */
    int basic;    /* index of the basic type */
    side_t send, recv;
} round_t;

static int rank, nranks, only_op = -1, kinds[2] = {-1, -1}, only_unit;
static bool on_device;

static const MPI_Datatype *basics(void)
{
    static MPI_Datatype types[4];

    types[0] = MPI_BYTE;
    types[1] = MPI_SHORT;
    types[2] = MPI_FLOAT;
    types[3] = MPI_DOUBLE;
    return types;
}

/* ---- the device ---- */

static int (*hip_malloc)(void **addr, size_t bytes);
static int (*hip_free)(void *addr);
static int (*hip_copy)(void *to, const void *from, size_t bytes, int kind);

static void *symbol(void *library, const char *name)
{
    void *found = library ? dlsym(library, name) : NULL;

    if (!found) {
        fprintf(stderr, "vectors: no %s\n", name);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return found;
}

static void open_device(void)
{
    void *hip = dlopen("libamdhip64.so", RTLD_NOW | RTLD_GLOBAL);
    int (*count)(int *devices), (*set)(int device), devices;

    hip = hip ? hip : dlopen("libamdhip64.so.5", RTLD_NOW | RTLD_GLOBAL);
    *(void **)&count = symbol(hip, "hipGetDeviceCount");
    *(void **)&set = symbol(hip, "hipSetDevice");
    *(void **)&hip_malloc = symbol(hip, "hipMalloc");
    *(void **)&hip_free = symbol(hip, "hipFree");
    *(void **)&hip_copy = symbol(hip, "hipMemcpy");
    if (count(&devices) || !devices || set(rank % devices)) {
        fprintf(stderr, "vectors: no device\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void copy(void *to, const void *from, size_t bytes)
{
    enum { DEFAULT = 4 };

    if (hip_copy(to, from, bytes, DEFAULT)) {
        fprintf(stderr, "vectors: hipMemcpy failed\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void to_device(side_t *s)
{
    if (on_device) {
        copy(s->device, s->host, s->bytes);
    }
}

static void *address(const side_t *s)
{
    return (on_device ? s->device : s->host) + s->origin;
}

/* ---- choices ---- */

static uint64_t state;

static unsigned below(unsigned n)
{
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (unsigned)(state >> 33) % n;
}

static int divisor(int n)
{
    int d;

    do {
        d = 1 + (int)below((unsigned)n);
    } while (n % d);
    return d;
}

/* ---- types ---- */

static MPI_Datatype resized(MPI_Datatype type, MPI_Aint extent)
{
    MPI_Datatype result;

    MPI_Type_create_resized(type, 0, extent, &result);
    MPI_Type_free(&type);
    return result;
}

static MPI_Datatype indexed(int elements, MPI_Datatype basic)
{
    int *lengths = malloc((size_t)elements * sizeof(int)), *displs = malloc((size_t)elements * sizeof(int)), at = 0;
    MPI_Datatype type;

    for (int i = 0; i < elements; i++) {
        lengths[i] = 1;
        displs[i] = at += 1 + (int)below(3);
    }
    MPI_Type_indexed(elements, lengths, displs, basic, &type);
    free(lengths);
    free(displs);
    return type;
}

/* This number of basic elements. `wide`: distance of the rows of a matrix in which all blocks are columns beside each
 * other. */
static MPI_Datatype make_type(int kind, int elements, MPI_Datatype basic, int wide)
{
    int block = divisor(elements), rows = elements / block, stride = block + (int)below(6), inner = divisor(rows), size;
    MPI_Datatype type, part;

    MPI_Type_size(basic, &size);
    switch (kind) {
    case VECTOR:
        MPI_Type_vector(rows, block, stride, basic, &type);
        break;
    case HVECTOR:
        MPI_Type_create_hvector(rows, block, block * size + (int)below(14), basic, &type);
        break;
    case CONTINUING:
        MPI_Type_vector(rows, block, stride, basic, &type);
        type = resized(type, (MPI_Aint)rows * stride * size);
        break;
    case COLUMN:
        MPI_Type_vector(elements, 1, wide, basic, &type);
        type = resized(type, size);
        break;
    case GAPS:
        MPI_Type_contiguous(elements, basic, &type);
        type = resized(type, (MPI_Aint)elements * size + (int)below(20));
        break;
    case NESTED:
        MPI_Type_create_hvector(inner, block, stride * size, basic, &part);
        MPI_Type_create_hvector(rows / inner, 1, (MPI_Aint)inner * stride * size + (int)below(30), part, &type);
        MPI_Type_free(&part);
        break;
    case NEGATIVE:
        MPI_Type_vector(rows, block, -stride, basic, &type);
        break;
    case INDEXED:
        type = indexed(elements, basic);
        break;
    case SUBARRAY:
        MPI_Type_create_subarray(2, (int[]){rows + 2, block + 3}, (int[]){rows, block}, (int[]){1, 2}, MPI_ORDER_C,
                                 basic, &type);
        break;
    default:
        MPI_Type_contiguous(elements, basic, &type);
    }
    MPI_Type_commit(&type);
    return type;
}

/* ---- buffers ---- */

/* One irregular side sends all ranks through the host, so such sides are rare. */
static int draw_kind(void)
{
    static const int regular[] = {VECTOR, HVECTOR, CONTINUING, COLUMN, GAPS, SUBARRAY, PLAIN};

    return below(2 * (unsigned)nranks) ? regular[below(sizeof(regular) / sizeof(regular[0]))] : (int)below(KINDS);
}

/* Basic elements that one rank sends to another, in units. Symmetric. */
static int multiple(const round_t *r, int from, int to)
{
    switch (r->op) {
    case ALLGATHERV:
        return (from + r->multiple) % 4;
    case ALLTOALLV:
        return (from + to + r->multiple) % 4;
    default:
        return r->multiple;
    }
}

static unsigned char byte_of(const round_t *r, int from, int to, long j)
{
    uint32_t x = r->salt + (uint32_t)from * 7919u + (r->op < ALLTOALL ? 0 : (uint32_t)to * 104729u) + (uint32_t)j * 31u;

    return (unsigned char)(x ^ x >> 7 ^ x >> 15);
}

/* Memory around all blocks, and a margin. */
static void make_room(side_t *s)
{
    MPI_Aint lb, extent, low, span, from = 0, to = 0;

    MPI_Type_get_extent(s->type, &lb, &extent);
    MPI_Type_get_true_extent(s->type, &low, &span);
    for (int b = 0; b < s->n; b++) {
        MPI_Aint first = s->displs[b] * extent + low, last = first + (s->counts[b] - 1) * extent + span;

        if (s->counts[b]) {
            from = first < from ? first : from;
            to = last > to ? last : to;
        }
    }
    s->origin = MARGIN + (int)below(MARGIN) - from;
    s->bytes = (size_t)(to + s->origin + MARGIN);
    s->host = malloc(s->bytes);
    s->device = NULL;
    if (on_device && hip_malloc((void **)&s->device, s->bytes)) {
        fprintf(stderr, "vectors: hipMalloc failed\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void make_side(const round_t *r, side_t *s, bool sends, int kind)
{
    int parts = divisor(r->unit), at = 0;
    bool gaps = r->op == ALLTOALLV || (r->op == ALLGATHERV && !sends);

    s->n = sends && r->op < ALLTOALL ? 1 : nranks;
    s->kind = kind < 0 ? draw_kind() : kind;
    for (int b = 0; b < s->n; b++) {
        s->counts[b] = parts * (sends ? multiple(r, rank, b) : multiple(r, b, rank));
        s->displs[b] = at;
        at += s->counts[b] + (gaps ? (int)below(3) : 0);
    }
    s->type = make_type(s->kind, r->unit / parts, basics()[r->basic], at + 1 + (int)below(4));
    make_room(s);
}

static void free_side(side_t *s)
{
    free(s->host);
    if (s->device) {
        hip_free(s->device);
    }
    MPI_Type_free(&s->type);
}

/* Writes the bytes of a block where its type says. */
static void put_block(const round_t *r, const side_t *s, int block, int from, int to)
{
    MPI_Aint lb, extent;
    int size, position = 0;
    long bytes;
    unsigned char *packed;

    MPI_Type_get_extent(s->type, &lb, &extent);
    MPI_Type_size(s->type, &size);
    bytes = (long)size * s->counts[block];
    packed = malloc((size_t)bytes + 1);
    for (long j = 0; j < bytes; j++) {
        packed[j] = byte_of(r, from, to, j);
    }
    MPI_Unpack(packed, (int)bytes, &position, s->host + s->origin + s->displs[block] * extent, s->counts[block],
               s->type, MPI_COMM_WORLD);
    free(packed);
}

static void fill(const round_t *r, side_t *s)
{
    for (size_t i = 0; i < s->bytes; i++) {
        s->host[i] = (char)(i * 13 + r->salt);
    }
}

/* ---- calls ---- */

static void start(round_t *r, MPI_Request *request)
{
    const side_t *s = &r->send, *t = &r->recv;
    void *from = r->in_place ? MPI_IN_PLACE : address(s), *to = address(t);
    MPI_Comm comm = MPI_COMM_WORLD;

#define GATHER    from, s->counts[0], s->type, to, t->counts[0], t->type
#define GATHERV   from, s->counts[0], s->type, to, t->counts, t->displs, t->type
#define EXCHANGEV from, s->counts, s->displs, s->type, to, t->counts, t->displs, t->type
#define CALL(op, name, small, args)                                                                                    \
    case op:                                                                                                           \
        if (r->form == BLOCKING) {                                                                                     \
            MPI_##name(args, comm);                                                                                    \
        } else if (r->form == NONBLOCKING) {                                                                           \
            MPI_I##small(args, comm, request);                                                                         \
        } else {                                                                                                       \
            PERSISTENT(name)(args, comm, MPI_INFO_NULL, request);                                                      \
        }                                                                                                              \
        break
    switch (r->op) {
        CALL(ALLGATHER, Allgather, allgather, GATHER);
        CALL(ALLGATHERV, Allgatherv, allgatherv, GATHERV);
        CALL(ALLTOALL, Alltoall, alltoall, GATHER);
        CALL(ALLTOALLV, Alltoallv, alltoallv, EXCHANGEV);
    }
}

/* Data to send, and an empty receive buffer. `want`: what it must contain afterwards. */
static void prepare(round_t *r, char **want)
{
    bool gathers = r->op < ALLTOALL;

    if (!r->in_place) {
        fill(r, &r->send);
        for (int b = 0; b < r->send.n; b++) {
            put_block(r, &r->send, b, rank, b);
        }
        to_device(&r->send);
    }
    fill(r, &r->recv);
    for (int b = 0; r->in_place && b < nranks; b++) {
        if (!gathers || b == rank) {
            put_block(r, &r->recv, b, rank, b);
        }
    }
    to_device(&r->recv);
    *want = malloc(r->recv.bytes);
    memcpy(*want, r->recv.host, r->recv.bytes);
}

static void check(round_t *r, char *want)
{
    side_t expected = r->recv;
    size_t wrong = 0;

    if (on_device) {
        copy(r->recv.host, r->recv.device, r->recv.bytes);
    }
    expected.host = want;
    for (int b = 0; b < nranks; b++) {
        put_block(r, &expected, b, b, rank);
    }
    while (wrong < r->recv.bytes && want[wrong] == r->recv.host[wrong]) {
        wrong++;
    }
    if (wrong < r->recv.bytes) {
        fprintf(stderr, "rank %d: %s form %d%s, unit %d x %d, %s -> %s: byte %zu of %zu is wrong\n", rank,
                op_names[r->op], r->form, r->in_place ? " in place" : "", r->unit, r->basic,
                r->in_place ? "" : kind_names[r->send.kind], kind_names[r->recv.kind], wrong, r->recv.bytes);
    }
    VERIFY(wrong == r->recv.bytes);
    free(want);
}

static void run(round_t *r)
{
    MPI_Request request = MPI_REQUEST_NULL;
    char *want;

    prepare(r, &want);
    start(r, &request);
    if (r->form == PERSISTENT_FORM) {
        for (int i = 0; i < 3; i++) {
            if (i) {
                r->salt += 977;
                prepare(r, &want);
            }
            MPI_Start(&request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            check(r, want);
        }
        MPI_Request_free(&request);
        return;
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    check(r, want);
}

static void one_round(uint64_t seed, int i)
{
    static const int units[] = {1, 2, 6, 12, 24, 60, 96, 360, 1440};
    round_t r = {0};

    state = seed * 1000003 + (uint64_t)i; /* equal on all ranks */
    below(1);
    r.op = only_op < 0 ? (int)below(OPS) : only_op;
    r.form = (int)below(FORMS);
    r.in_place = kinds[0] < 0 && below(4) == 0;
    r.salt = below(1u << 30);
    r.unit = only_unit ? only_unit : units[below(sizeof(units) / sizeof(units[0]))];
    r.multiple = 1 + (int)below(4);
    r.basic = (int)below(4);
    state += 7919 * (uint64_t)(rank + 1); /* and different from here on */
    below(1);
    if (!r.in_place) {
        make_side(&r, &r.send, true, kinds[0]);
    }
    make_side(&r, &r.recv, false, kinds[1]);
    run(&r);
    if (!r.in_place) {
        free_side(&r.send);
    }
    free_side(&r.recv);
}

/* Device memory that is new in a call in which other ranks have host memory is still new to them in the next call. */
static void mixed(void)
{
    enum { BYTES = 5000 };
    char *host[2], *device[2];

    for (int i = 0; i < 2; i++) {
        host[i] = malloc(BYTES * RANKS);
    }
    if (hip_malloc((void **)&device[0], BYTES * RANKS) || hip_malloc((void **)&device[1], BYTES * RANKS)) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (int i = 0; i < 3; i++) {
        char *buffer = i == 0 ? device[0] : rank % 2 == 0 ? device[1] : i == 1 ? host[0] : device[0];

        memset(host[1], 100 + i, BYTES * RANKS);
        memset(host[1] + rank * BYTES, rank + i, BYTES);
        copy(buffer, host[1], BYTES * RANKS);
        MPI_Allgather(MPI_IN_PLACE, 0, MPI_BYTE, buffer, BYTES, MPI_BYTE, MPI_COMM_WORLD);
        copy(host[1], buffer, BYTES * RANKS);
        for (int r = 0; r < nranks; r++) {
            VERIFY(host[1][r * BYTES] == r + i && host[1][(r + 1) * BYTES - 1] == r + i);
        }
    }
    hip_free(device[0]);
    hip_free(device[1]);
    free(host[0]);
    free(host[1]);
}

int main(int argc, char **argv)
{
    uint64_t seed = 1;
    int rounds = 100, option, result;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    while ((option = getopt(argc, argv, "ds:n:k:o:b:")) != -1) {
        switch (option) {
        case 'd':
            on_device = true;
            break;
        case 's':
            seed = strtoull(optarg, NULL, 10);
            break;
        case 'n':
            rounds = atoi(optarg);
            break;
        case 'k':
            sscanf(optarg, "%d,%d", &kinds[0], &kinds[1]);
            break;
        case 'o':
            only_op = atoi(optarg);
            break;
        case 'b':
            only_unit = atoi(optarg);
            break;
        default:
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
    }
    if (nranks > RANKS) {
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    if (on_device) {
        open_device();
        mixed();
    }
    for (int i = 0; i < rounds; i++) {
        one_round(seed, i);
    }
    if (rank == 0) {
        printf("seed %llu, %d rounds\n", (unsigned long long)seed, rounds);
    }
    result = verify_summary("vectors", MPI_COMM_WORLD);
    MPI_Finalize();
    return result;
}
