/*
 * A communicator must leave nothing behind. Many are made, used in every form of a call and freed, and the process must not
 * grow.
 *
 *     dupfree [PAIRS]
 *
 * Open MPI itself grows by 100 bytes per communicator, up to the largest number of communicators that it has had. So the
 * same loop runs first with other components, in the same process, with an info key that excludes coll/dma.
 */
#include <dirent.h>
#include <malloc.h>
#include <string.h>
#include <unistd.h>

#include "verify.h"

enum { MAX_RANKS = 32, WARM_UP = 200 };

/* `heap`: allocated bytes. The resident memory is larger, by what the allocator keeps. */
typedef struct footprint {
    long maps, files, heap, resident_kib;
} footprint_t;

static long lines_of(const char *path)
{
    FILE *file = fopen(path, "r");
    long lines = 0;
    int c;

    while (file && EOF != (c = getc(file))) {
        lines += '\n' == c;
    }
    if (file) {
        fclose(file);
    }
    return lines;
}

static footprint_t measure(void)
{
    footprint_t now = {.maps = lines_of("/proc/self/maps")};
    struct mallinfo2 heap = mallinfo2();
    DIR *files = opendir("/proc/self/fd");
    FILE *statm = fopen("/proc/self/statm", "r");

    now.heap = (long)(heap.uordblks + heap.hblkhd);
    while (files && readdir(files)) {
        now.files++;
    }
    closedir(files);
    if (!statm || 1 != fscanf(statm, "%*d %ld", &now.resident_kib)) {
        now.resident_kib = -1;
    }
    fclose(statm);
    now.resident_kib *= sysconf(_SC_PAGESIZE) / 1024;
    return now;
}

static void use(MPI_Comm comm, int i, int rank, int nranks)
{
    int mine = i + rank, all[MAX_RANKS];
    MPI_Request request;

    switch (i % 3) {
    case 0:
        MPI_Iallgather(&mine, 1, MPI_INT, all, 1, MPI_INT, comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        break;
    case 1:
        PERSISTENT(Allgather)(&mine, 1, MPI_INT, all, 1, MPI_INT, comm, MPI_INFO_NULL, &request);
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Request_free(&request);
        break;
    default:
        MPI_Allgather(&mine, 1, MPI_INT, all, 1, MPI_INT, comm);
        break;
    }
    VERIFY(all[0] == i && all[nranks - 1] == i + nranks - 1);
}

/* Growth over `pairs` communicators. */
static footprint_t grow(int pairs, MPI_Info info)
{
    int rank, nranks;
    footprint_t before = {0}, after;
    MPI_Comm comm;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    for (int i = -WARM_UP; i < pairs; i++) {
        if (0 == i) {
            before = measure();
        }
        MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm);
        use(comm, i + WARM_UP, rank, nranks);
        MPI_Comm_free(&comm);
    }
    after = measure();
    after.maps -= before.maps;
    after.files -= before.files;
    after.heap -= before.heap;
    after.resident_kib -= before.resident_kib;
    return after;
}

int main(int argc, char **argv)
{
    int pairs = argc > 1 ? atoi(argv[1]) : 10000, rank, outcome;
    footprint_t without, with;
    MPI_Info info;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Info_create(&info);
    MPI_Info_set(info, "ompi_comm_coll_preference", "^dma");
    without = grow(pairs, info);
    MPI_Info_free(&info);
    with = grow(pairs, MPI_INFO_NULL);

    if (0 == rank) {
        printf("dupfree: %d communicators without us: %+ld maps, %+ld files, %+ld bytes, %+ld KiB resident; "
               "with us: %+ld, %+ld, %+ld, %+ld\n",
               pairs, without.maps, without.files, without.heap, without.resident_kib, with.maps, with.files, with.heap,
               with.resident_kib);
    }
    verify_where = "growth";
    VERIFY(with.files <= without.files);
    VERIFY(with.maps <= (without.maps > 0 ? without.maps : 0) + 2);
    /* Not one object per communicator (the smallest takes 32 bytes of the heap), and some KiB for tables that have grown. */
    VERIFY(with.heap <= pairs * 8L + 16384);
    /* Memory that is resident and not allocated belongs to the allocator: up to 800 KiB with Open MPI 6.0, however many
     * there were. */
    VERIFY(with.resident_kib <= (without.resident_kib > 0 ? without.resident_kib : 0) + 1024);

    outcome = verify_summary("dupfree", MPI_COMM_WORLD);
    MPI_Finalize();
    return outcome;
}
