/*
 * What is measured: see gpu_bench.h. Byte i of what rank r sends is a function of r and i, the same for all modes and
 * sizes; a check looks at places spread over the receive buffer, which held something else before.
 */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "../../ompi_coll_dma/component/series.h"
#include "device.h"
#include "gpu_bench.h"

enum { SPOT = 256, SPOTS = 17, FILL_PIECE = 1 << 24 };

static struct {
    char *send, *recv; /* ours */
    what_t what;
    int block;
    MPI_Request request;
} ours;

static uint32_t word(int rank, size_t at)
{
    uint64_t x = ((uint64_t)rank << 40 | at) * UINT64_C(0x9e3779b97f4a7c15);

    x ^= x >> 29;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    return (uint32_t)(x >> 32) | 1;
}

static unsigned char content(int rank, size_t at)
{
    return (unsigned char)(word(rank, at / 4) >> 8 * (at % 4));
}

static void fill(char *to)
{
    uint32_t *piece = malloc(FILL_PIECE);

    if (!piece) {
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (size_t at = 0; at < bench.most; at += FILL_PIECE) {
        size_t bytes = bench.most - at < FILL_PIECE ? bench.most - at : FILL_PIECE;

        for (size_t i = 0; i < bytes / 4; i++) {
            piece[i] = word(bench.rank, at / 4 + i);
        }
        device_copy(to + at, piece, bytes);
    }
    free(piece);
}

static void bcast(void *data, size_t bytes)
{
    MPI_Bcast(data, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
}

void modes_open(void)
{
    const char *why;
    int good, all;

    ours.send = device_alloc(bench.most);
    ours.recv = device_alloc(bench.most);
    fill(ours.send);
    if (!bench.rival) {
        return;
    }
    why = bench.rival->open(bench.rank, bench.n, device_index(), bench.most, bcast);
    good = !why;
    MPI_Allreduce(&good, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (why) {
        fprintf(stderr, "rank %d: no rival: %s\n", bench.rank, why);
    }
    if (!all) {
        bench.rival = NULL;
        return;
    }
    for (int i = 0; i < bench.rival->modes; i++) {
        if (!bench.rival->graph(i)) {
            fill(bench.rival->send(i));
        }
    }
}

void modes_close(void)
{
    if (bench.rival) {
        bench.rival->close();
    }
    device_free(ours.send);
    device_free(ours.recv);
}

int modes_count(void)
{
    return OUR_MODES + (bench.rival ? bench.rival->modes : 0);
}

const char *mode_name(int mode)
{
    static const char *const names[OUR_MODES] = {"dma", "dma persistent"};

    return mode < OUR_MODES ? names[mode] : bench.rival->name(mode - OUR_MODES);
}

bool mode_graph(int mode)
{
    return mode >= OUR_MODES && bench.rival->graph(mode - OUR_MODES);
}

static char *send_of(int mode)
{
    return mode < OUR_MODES ? ours.send : bench.rival->send(mode - OUR_MODES);
}

static char *recv_of(int mode)
{
    return mode < OUR_MODES ? ours.recv : bench.rival->recv(mode - OUR_MODES);
}

/* What a call in place finds. */
static void fill_place(int mode)
{
    size_t block = ours.what.bytes / (size_t)bench.n;

    if (ours.what.to_each) {
        device_copy(recv_of(mode), send_of(mode), ours.what.bytes);
    } else {
        device_copy(recv_of(mode) + (size_t)bench.rank * block, send_of(mode), block);
    }
}

bool mode_prepare(int mode, const what_t *what)
{
    int good = 1, all;

    ours.what = *what;
    ours.block = (int)(what->bytes / (size_t)bench.n);
    if (what->in_place) {
        fill_place(mode);
    }
    if (mode >= OUR_MODES) {
        good = bench.rival->prepare(mode - OUR_MODES, what->to_each, what->in_place, what->bytes);
    } else if (mode == OURS_PERSISTENT) {
        const void *send = what->in_place ? MPI_IN_PLACE : ours.send;

        if (what->to_each) {
            PERSISTENT(Alltoall)
            (send, ours.block, MPI_BYTE, ours.recv, ours.block, MPI_BYTE, MPI_COMM_WORLD, MPI_INFO_NULL, &ours.request);
        } else {
            PERSISTENT(Allgather)
            (send, ours.block, MPI_BYTE, ours.recv, ours.block, MPI_BYTE, MPI_COMM_WORLD, MPI_INFO_NULL, &ours.request);
        }
    }
    MPI_Allreduce(&good, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return all;
}

void mode_call(int mode)
{
    const void *send = ours.what.in_place ? MPI_IN_PLACE : ours.send;

    if (mode >= OUR_MODES) {
        bench.rival->run(mode - OUR_MODES);
    } else if (mode == OURS_PERSISTENT) {
        MPI_Start(&ours.request);
        MPI_Wait(&ours.request, MPI_STATUS_IGNORE);
    } else if (ours.what.to_each) {
        MPI_Alltoall(send, ours.block, MPI_BYTE, ours.recv, ours.block, MPI_BYTE, MPI_COMM_WORLD);
    } else {
        MPI_Allgather(send, ours.block, MPI_BYTE, ours.recv, ours.block, MPI_BYTE, MPI_COMM_WORLD);
    }
}

void mode_finish(int mode)
{
    if (mode == OURS_PERSISTENT) {
        MPI_Request_free(&ours.request);
    }
}

/* Where spot `i` of a block begins: the first and the last one at its ends. */
static size_t spot_at(size_t block, int i)
{
    return block <= SPOT ? 0 : (block - SPOT) / (SPOTS - 1) * (size_t)i;
}

static bool spot_right(int mode, int from, size_t at, size_t bytes)
{
    size_t block = ours.what.bytes / (size_t)bench.n, first = ours.what.to_each ? (size_t)bench.rank * block : 0;
    unsigned char found[SPOT];

    device_copy(found, recv_of(mode) + (size_t)from * block + at, bytes);
    for (size_t i = 0; i < bytes; i++) {
        if (found[i] != content(from, first + at + i)) {
            fprintf(stderr, "rank %d: %s: wrong byte %zu of block %d of %zu bytes\n", bench.rank, mode_name(mode),
                    at + i, from, block);
            return false;
        }
    }
    return true;
}

bool mode_check(int mode)
{
    static const unsigned char nothing[SPOT];
    size_t block = ours.what.bytes / (size_t)bench.n, bytes = block < SPOT ? block : SPOT;
    bool right = true;

    for (int b = 0; b < bench.n; b++) {
        for (int i = 0; i < SPOTS; i++) {
            device_copy(recv_of(mode) + (size_t)b * block + spot_at(block, i), nothing, bytes);
        }
    }
    if (ours.what.in_place) {
        fill_place(mode);
    }
    time_barrier(); /* nobody's block may come before its place was cleared */
    mode_call(mode);
    for (int b = 0; b < bench.n && right; b++) {
        for (int i = 0; i < SPOTS && right; i++) {
            right = spot_right(mode, b, spot_at(block, i), bytes);
        }
    }
    return right;
}
