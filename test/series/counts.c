/*
 * counts [some|posted]: calls with more than 2^31 elements, which only the MPI_*_c functions can express, on 2 ranks.
 * Elements are one byte, so that a number that is cut to 31 or 32 bits anywhere moves wrong bytes.
 *
 * Blocks are BIG elements, or few elements behind displacements of that size. Most of a buffer is the same WINDOW bytes of
 * memory, mapped again and again. The windows around the edges (0, 2^31, BIG and their doubles) have memory of their own.
 *
 *     | own | shared | ... | shared | own: 2^31, BIG | shared | ... | own: 2^32, 2 BIG |
 *
 * Only the own windows nearest to an edge are checked: a block that does not begin with a window takes a part of its data
 * from the windows beside those.
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../mpi/verify.h"

#if HAVE_LARGE_COUNTS

enum { RANKS = 2, WINDOW = 4 << 20, FEW = 13, GAP = 7, EDGES = 5, GUARD = 0xA5 };
static const size_t BIG = (1ul << 31) + 4099;
static int rank;

static bool is_near(size_t window, size_t distance)
{
    const size_t edges[EDGES] = {0, 1ul << 31, BIG, 1ul << 32, 2 * BIG};

    for (int i = 0; i < EDGES; i++) {
        if (edges[i] / WINDOW <= window + distance && window <= edges[i] / WINDOW + distance) {
            return true;
        }
    }
    return false;
}

static bool is_own(size_t window)
{
    return is_near(window, 2);
}

typedef struct {
    unsigned char *base;
    size_t windows;
} region_t;

static region_t make_region(size_t bytes)
{
    region_t r = {.windows = (bytes + WINDOW - 1) / WINDOW};
    size_t own = 0;
    int fd = memfd_create("counts", MFD_CLOEXEC);

    for (size_t w = 0; w < r.windows; w++) {
        own += is_own(w);
    }
    r.base = mmap(NULL, r.windows * WINDOW, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fd < 0 || 0 != ftruncate(fd, (off_t)(own + 1) * WINDOW) || MAP_FAILED == r.base) {
        perror("counts");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    own = 0;
    for (size_t w = 0; w < r.windows; w++) {
        off_t at = is_own(w) ? (off_t)++own * WINDOW : 0;

        if (MAP_FAILED == mmap(r.base + w * WINDOW, WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, at)) {
            perror("counts");
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
    }
    close(fd);
    return r;
}

static void free_region(region_t *r)
{
    munmap(r->base, r->windows * WINDOW);
}

/* Element `i` of a block. */
static unsigned char value(int from, int to, size_t i)
{
    return (unsigned char)(i * 2654435761u >> 24 ^ i >> 13 ^ (size_t)(from * 2 + to + 1) * 37);
}

/* A window's part of a block that begins at `at`: sets the data, or counts the wrong ones. Memory that is shared with
 * other windows is skipped. */
static long visit(const region_t *r, size_t at, size_t count, int from, int to, bool set)
{
    long wrong = 0;

    for (size_t w = at / WINDOW; w < r->windows && w * WINDOW < at + count; w++) {
        size_t begin = w * WINDOW > at ? w * WINDOW : at;
        size_t end = (w + 1) * WINDOW < at + count ? (w + 1) * WINDOW : at + count;

        for (size_t i = begin; is_near(w, set ? 2 : 1) && i < end; i++) {
            if (set) {
                r->base[i] = value(from, to, i - at);
            } else {
                wrong += r->base[i] != value(from, to, i - at);
            }
        }
    }
    return wrong;
}

static void guard(const region_t *r)
{
    for (size_t w = 0; w < r->windows; w++) {
        if (is_own(w)) {
            memset(r->base + w * WINDOW, GUARD, WINDOW);
        }
    }
}

/* Bytes that nobody may have written to. */
static long count_written(const region_t *r, size_t begin, size_t end)
{
    long written = 0;

    for (size_t w = begin / WINDOW; w < r->windows && w * WINDOW < end; w++) {
        for (size_t i = w * WINDOW > begin ? w * WINDOW : begin; is_own(w) && i < (w + 1) * WINDOW && i < end; i++) {
            written += GUARD != r->base[i];
        }
    }
    return written;
}

typedef enum { ALLGATHER, ALLGATHERV, ALLTOALL, ALLTOALLV, OPS } op_t;
static const char *const op_names[OPS] = {"all-gather", "all-gather-v", "all-to-all", "all-to-all-v"};
typedef enum { BLOCKING, NONBLOCKING, PERSISTENT_FORM, FORMS } form_t;
static const char *const form_names[FORMS] = {"blocking", "non-blocking", "persistent"};

/* What rank `from` has for rank `to`. In the v-operations only one block is big. The others lie behind it. */
static MPI_Count block(op_t op, int from, int to)
{
    return ALLGATHERV == op  ? (0 == from ? (MPI_Count)BIG : FEW)
           : ALLTOALLV == op ? (0 == from && 1 == to ? (MPI_Count)BIG : FEW)
                             : (MPI_Count)BIG;
}

typedef struct {
    MPI_Count scounts[RANKS], rcounts[RANKS];
    MPI_Aint sdispls[RANKS], rdispls[RANKS];
} shape_t;

static shape_t shape_of(op_t op)
{
    MPI_Aint gap = ALLGATHERV == op || ALLTOALLV == op ? GAP : 0;
    shape_t s;

    for (int r = 0; r < RANKS; r++) {
        s.scounts[r] = block(op, rank, r);
        s.rcounts[r] = block(op, r, rank);
    }
    s.sdispls[0] = s.rdispls[0] = 0;
    s.sdispls[1] = gap ? (MPI_Aint)BIG + gap : s.scounts[0];
    s.rdispls[1] = gap ? (MPI_Aint)BIG + gap : s.rcounts[0];
    /* The big block comes first, and the others behind it. Rank 0's block for rank 1 is its second. */
    if (ALLTOALLV == op && 0 == rank) {
        s.sdispls[0] = (MPI_Aint)BIG + gap;
        s.sdispls[1] = 0;
    }
    return s;
}

#define GATHER    s, (MPI_Count)shape->scounts[rank], type, r, (MPI_Count)BIG, type
#define GATHERV   s, shape->scounts[rank], type, r, shape->rcounts, shape->rdispls, type
#define EXCHANGE  s, (MPI_Count)BIG, type, r, (MPI_Count)BIG, type
#define EXCHANGEV s, shape->scounts, shape->sdispls, type, r, shape->rcounts, shape->rdispls, type
#define CALL(name, arguments)                                                                                          \
    (BLOCKING == form      ? MPI_##name##_c(arguments, MPI_COMM_WORLD)                                                 \
     : NONBLOCKING == form ? MPI_I##name##_c(arguments, MPI_COMM_WORLD, request)                                       \
                           : MPI_##name##_init_c(arguments, MPI_COMM_WORLD, MPI_INFO_NULL, request))
/* MPI's names of the non-blocking calls. */
#define MPI_IAllgather_c  MPI_Iallgather_c
#define MPI_IAllgatherv_c MPI_Iallgatherv_c
#define MPI_IAlltoall_c   MPI_Ialltoall_c
#define MPI_IAlltoallv_c  MPI_Ialltoallv_c

static int call(op_t op, form_t form, const shape_t *shape, const void *s, void *r, MPI_Datatype type,
                MPI_Request *request)
{
    switch (op) {
    case ALLGATHER:
        return CALL(Allgather, GATHER);
    case ALLGATHERV:
        return CALL(Allgatherv, GATHERV);
    case ALLTOALL:
        return CALL(Alltoall, EXCHANGE);
    default:
        return CALL(Alltoallv, EXCHANGEV);
    }
}

static void try(op_t op, form_t form, bool derived)
{
    bool gathers = ALLGATHER == op || ALLGATHERV == op;
    shape_t shape = shape_of(op);
    region_t send = make_region(2 * BIG + GAP + FEW), recv = make_region(2 * BIG + GAP + FEW);
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Datatype type = MPI_CHAR;
    double start;
    char what[80];

    snprintf(what, sizeof(what), "%s, %s%s", op_names[op], form_names[form], derived ? ", derived" : "");
    verify_where = what;
    guard(&send);
    guard(&recv);
    for (int r = 0; r < (gathers ? 1 : RANKS); r++) {
        visit(&send, gathers ? 0 : (size_t)shape.sdispls[r], (size_t)shape.scounts[gathers ? rank : r], rank,
              gathers ? 0 : r, true);
    }
    if (derived) {
        MPI_Type_contiguous(1, MPI_CHAR, &type);
        MPI_Type_commit(&type);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    VERIFY(MPI_SUCCESS == call(op, form, &shape, send.base, recv.base, type, &request));
    if (derived) {
        MPI_Type_free(&type);
    }
    if (PERSISTENT_FORM == form) {
        MPI_Start(&request);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (PERSISTENT_FORM == form) {
        MPI_Request_free(&request);
    }
    if (0 == rank) {
        printf("%s: %.1f s\n", what, MPI_Wtime() - start);
        fflush(stdout);
    }
    for (int r = 0; r < RANKS; r++) {
        VERIFY(0 == visit(&recv, (size_t)shape.rdispls[r], (size_t)shape.rcounts[r], r, gathers ? 0 : rank, false));
    }
    VERIFY(0 == count_written(&recv, (size_t)(shape.rdispls[0] + shape.rcounts[0]), (size_t)shape.rdispls[1]));
    VERIFY(0 == count_written(&recv, (size_t)(shape.rdispls[1] + shape.rcounts[1]), recv.windows * WINDOW));
    free_region(&send);
    free_region(&recv);
}

int main(int argc, char **argv)
{
    bool all = argc == 1, posted = argc > 1 && !strcmp(argv[1], "posted");
    int size, outcome;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (RANKS != size) {
        fprintf(stderr, "counts: needs %d ranks\n", RANKS);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (op_t op = ALLGATHER; op < OPS; op++) {
        for (form_t form = BLOCKING; form < FORMS; form++) {
            /* Each form once, first those that move the least. Blocking calls are left out if coll/dma does not serve
             * them. */
            if (all || (ALLGATHERV == op && BLOCKING == form && !posted) || (ALLTOALLV == op && BLOCKING != form)) {
                try(op, form, ALLTOALLV == op || PERSISTENT_FORM == form);
            }
        }
    }
    outcome = verify_summary("counts", MPI_COMM_WORLD);
    MPI_Finalize();
    return outcome;
}

#else

int main(void)
{
    printf("this Open MPI has no calls with large counts\n");
    return 77;
}

#endif
