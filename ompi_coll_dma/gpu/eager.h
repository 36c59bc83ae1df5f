/*
 * Eager starts: a start of a small persistent call is one kernel, which sends and receives packets.
 *
 * Each rank has memory for what comes, in two banks. Starts use them in turns. A bank has a part for each rank, and a part has one
 * packet for each 8 bytes of the largest block of the call, at least one. Packet i of a block carries its bytes 8 i to 8 i + 7 in
 * two words, each beside the epoch of the start:
 *
 *     data 0..3 | epoch | data 4..7 | epoch        16 bytes; each half is stored and loaded as one
 *
 * So a packet says itself that it has come. No word is stored behind the data, and no fence comes before it. A kernel
 *
 *     1. stores the epoch to the ready word of its rank, in memory of the host, and sends all packets of its blocks to the peers'
 *        memory; and copies its own block (DMA_EAGER_SEND)
 *     2. polls its own memory for the packets of the peers, and writes what they carry to the receive buffer (DMA_EAGER_RECV)
 *     3. stores the epoch to words in memory of the host, one for each block of threads, behind the missed word (DMA_EAGER_END)
 *
 * A kernel in a stream of the application does the first two. It may wait for a peer as long as the peer takes to start.
 *
 * A kernel that the host launches does all three. The host polls the words of step 3. If all peers have started before, their packets
 * come. Otherwise the kernel has patience for a few polls only, because no kernel of the host waits for a rank that may not start: if a
 * packet has not come by then, the kernel says so in the missed word, and ends. When the ready words of all peers have reached the
 * epoch, the host launches a kernel that receives everything once more. The kernels that send these packets have begun by then, and wait
 * for nothing before they have sent them.
 *
 * All ranks use packets for all starts of the call. So peers cannot tell how a rank has started, and each rank decides alone.
 *
 * Why two banks are enough. A rank sends the packets of start e after its start e - 1 has ended. So it has received packets of
 * start e - 1 from every peer. A peer has sent these after its start e - 2 had ended, when it had read the whole bank that the
 * packets of start e overwrite. Every rank sends at least one packet to every peer for that reason, also if a block is empty.
 *
 * Why an epoch is enough. Every start writes the same packets of its bank. So before start e a packet has the epoch e - 2, or that
 * which the memory was filled with: 0, the epoch of no start before 2^32 - 1 others.
 *
 * In place a block that is sent can be where one is received. Thread i reads item i of it before it writes item i there.
 *
 * Threads. A row of the grid (y) is a peer, in the order of ranks, or the own block. The threads of a row share the items of its
 * block. A thread sends all its items in a row before it waits for the first one that it receives. Devices begin blocks of threads
 * in their order. So kernels end also if the device has no room for all blocks at once: of all pairs of ranks, the first that is
 * not complete can go on.
 *
 * Failure. Once the stop word, in memory of the host, is not 0, kernels stop waiting. What the receive buffer holds is then undefined.
 */
#ifndef DMA_GPU_EAGER_H
#define DMA_GPU_EAGER_H

#include <stdint.h>

#ifndef DMA_EAGER_FN
#define DMA_EAGER_FN static inline /* in the kernel: eager_kernel.h */
#endif

#define DMA_EAGER_MOST_ROWS 16  /* ranks of a call at most */
#define DMA_EAGER_THREADS   512 /* of a block of threads at most */
#define DMA_EAGER_BLOCKS    32  /* blocks of threads of a kernel at most, if its rows allow that */
#define DMA_EAGER_ITEM      8   /* bytes that a packet carries */
#define DMA_EAGER_PACKET    16  /* bytes of a packet */

/* What a kernel does; a bit mask. */
#define DMA_EAGER_SEND 0x1
#define DMA_EAGER_RECV 0x2
#define DMA_EAGER_END  0x4

/* A peer, or the own block. Addresses are those of the kernel's device. */
typedef struct dma_eager_row {
    uint64_t src, dst; /* the block for the peer, and the place for the one from it */
    uint64_t out,
        in; /* in bank 0: the part of the peer's memory for our packets, and the part of ours; 0: the own block */
    uint32_t src_bytes, dst_bytes;
} dma_eager_row_t;

typedef struct dma_eager_args {
    uint64_t ready, stop, missed; /* addresses of these words */
    uint64_t ends;                /* and of the first word of step 3 */
    uint64_t bank_bytes;          /* from bank 0 to bank 1 */
    uint32_t epoch;
    uint32_t steps;    /* DMA_EAGER_* */
    uint32_t patience; /* how often a thread polls in vain at most; 0: until it is stopped */
    dma_eager_row_t rows[DMA_EAGER_MOST_ROWS];
} dma_eager_args_t;

/* The shape of a launch: so many blocks of threads for each row, of so many threads each. */
typedef struct dma_eager_grid {
    uint32_t blocks, rows, threads;
} dma_eager_grid_t;

/* Of a block of so many bytes. */
DMA_EAGER_FN uint32_t dma_eager_packets(uint64_t bytes)
{
    return bytes ? (uint32_t)((bytes + DMA_EAGER_ITEM - 1) / DMA_EAGER_ITEM) : 1;
}

#endif
