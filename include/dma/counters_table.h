/*
 * The counters of coll/dma, one row each. This table makes their numbers (DMA_COUNT_<name>), their registration with Open MPI
 * as the performance variables coll_dma_<name>, and the table in docs/user/counters.md. To add a counter, add a row and run
 * `make -C build counters-doc`. Not in this table, because their lists are elsewhere: a counter for each variant, for each
 * GPU engine (core/counters.c), and for each reason (dma/reasons_table.h).
 *
 * This file is included several times, with this macro defined:
 *
 *     DMA_COUNTER(scope, kind, name, help)
 *         scope   COMM: counted for each communicator, so it is also read for one of them (coll_dma_comm_<name>)
 *                 PROC: counted for the process
 *         kind    EVENTS, BYTES, NANOSECONDS, or LEVEL: bytes that grow and shrink
 *
 * The calls come first: for each form one row per operation, in the order of DMA_COLLS, because a call is counted by the number of
 * its operation. Help texts are shown by
 * ompi_info and by the document, so they contain no markup.
 */
/* clang-format off */
#define DMA_COUNT_MOVING_EQUAL  " that move data"
#define DMA_COUNT_MOVING_SHARED " that move data"
#define DMA_COUNT_MOVING_OWN    "" /* a rank does not know whether the others move data */
#define DMA_COUNTER_BLOCKING(id, text, function, mpi, sends, sizes, ...) \
    DMA_COUNTER(COMM, EVENTS, calls_blocking_##function, "Calls of MPI_" #mpi DMA_COUNT_MOVING_##sizes ".")
#define DMA_COUNTER_NONBLOCKING(id, text, function, mpi, sends, sizes, ...) \
    DMA_COUNTER(COMM, EVENTS, calls_nonblocking_##function, "Calls of MPI_I" #function DMA_COUNT_MOVING_##sizes ".")
#define DMA_COUNTER_PERSISTENT(id, text, function, mpi, sends, sizes, ...) \
    DMA_COUNTER(COMM, EVENTS, calls_persistent_##function, \
        "Starts of requests of MPI_" #mpi "_init" DMA_COUNT_MOVING_##sizes ".")
DMA_COLLS(DMA_COUNTER_BLOCKING)
DMA_COLLS(DMA_COUNTER_NONBLOCKING)
DMA_COLLS(DMA_COUNTER_PERSISTENT)
#undef DMA_COUNTER_BLOCKING
#undef DMA_COUNTER_NONBLOCKING
#undef DMA_COUNTER_PERSISTENT
#undef DMA_COUNT_MOVING_EQUAL
#undef DMA_COUNT_MOVING_SHARED
#undef DMA_COUNT_MOVING_OWN
DMA_COUNTER(COMM, EVENTS, calls_below,
    "Calls that the next collective component has carried out: blocking calls of communicators that coll/dma does not serve "
    "or has not set up so far, and calls in any form where a rank has not loaded coll/dma.")
DMA_COUNTER(COMM, EVENTS, calls_messages,
    "Other calls that were done by point-to-point messages of Open MPI, because coll/dma does not serve the communicator, "
    "or because there was no shared memory for a persistent request.")
DMA_COUNTER(COMM, EVENTS, calls_self, "Calls of communicators of one rank.")
DMA_COUNTER(COMM, EVENTS, calls_nodes, "Calls of communicators over several nodes that coll/dma has begun between the nodes.")
DMA_COUNTER(COMM, EVENTS, calls_repeated,
    "Of the calls that a GPU engine has done, those in which all ranks repeated their last call or start, so that nothing was "
    "looked up.")
DMA_COUNTER(COMM, EVENTS, calls_staged,
    "Calls with device memory in which this process has put host memory in its place. The reasons have counters too.")
DMA_COUNTER(COMM, EVENTS, calls_slots,
    "Of the staged calls, those whose device memory went through pinned memory that the ranks share, copied by the GPUs' "
    "runtime alone.")
DMA_COUNTER(COMM, EVENTS, calls_scratch,
    "Calls with device memory in which this process has put scratch memory in the place of a buffer. The reasons have "
    "counters too.")
DMA_COUNTER(COMM, EVENTS, calls_pieces,
    "Calls with device memory that were carried out in pieces, because the scratch memory of some rank, whose bound is "
    "coll_dma_scratch_bytes, does not hold the whole call, or because some rank has pinned or managed memory.")
DMA_COUNTER(COMM, EVENTS, calls_in_stream,
    "Starts of persistent requests that a stream of the application has made by itself (libmpix_dma).")
DMA_COUNTER(COMM, EVENTS, setups,
    "Set-ups that have begun: one for each communicator that is used, and for each persistent request. That of a persistent "
    "request on one node is an all-gather of 40 bytes, which is counted among bytes, variants and plans.")
DMA_COUNTER(COMM, EVENTS, plans_chosen, "Runs of the cost model: the first call of each operation and size.")
DMA_COUNTER(COMM, EVENTS, plans_built, "Plans that were built.")
DMA_COUNTER(COMM, EVENTS, plans_reused, "Calls that have run a plan which had been built before.")
DMA_COUNTER(COMM, BYTES, bytes_cores,
    "Bytes that this process has received, its own block included, in calls that the cores of the ranks have carried out: on "
    "one node through shared memory, with variants whose names begin with host_, and on communicators of one rank.")
DMA_COUNTER(COMM, BYTES, bytes_cross,
    "Of coll_dma_bytes_cores, the bytes that were copied directly out of another process's memory.")
DMA_COUNTER(COMM, BYTES, bytes_sent, "Bytes in messages to ranks of other nodes.")
DMA_COUNTER(COMM, BYTES, bytes_received, "Bytes in messages from ranks of other nodes.")
DMA_COUNTER(COMM, EVENTS, messages_sent, "Messages to ranks of other nodes.")
DMA_COUNTER(COMM, EVENTS, messages_received, "Messages from ranks of other nodes.")
DMA_COUNTER(COMM, EVENTS, armed, "Starts of persistent requests whose programs were given to the engines before MPI_Start.")
DMA_COUNTER(COMM, EVENTS, armed_started, "Of the armed starts, those that MPI_Start has started.")
DMA_COUNTER(COMM, EVENTS, armed_cancelled, "Of the armed starts, those that were removed before MPI_Start.")
DMA_COUNTER(COMM, NANOSECONDS, armed_ns,
    "Time that programs have waited in the engines for MPI_Start, until it came or they were removed.")
DMA_COUNTER(PROC, BYTES, bytes_engines,
    "Bytes that GPU engines were told to write: a packet or copy with two destinations counts twice, an exchange counts what "
    "each of its copies writes. What was armed counts when it is started.")
DMA_COUNTER(PROC, EVENTS, packets, "Packets that were given to queues of the engine sdma; those of the self-test are not included.")
DMA_COUNTER(PROC, EVENTS, packets_skipped,
    "Packets of the engine sdma that the engines have skipped, because their programs were removed.")
DMA_COUNTER(PROC, EVENTS, doorbells, "Doorbells of queues of the engine sdma that were rung.")
DMA_COUNTER(PROC, EVENTS, nudges,
    "Times that a queue of the engine sdma with work did not move for 10 ms or more, so that its doorbell was rung again "
    "with a packet that does nothing. If the queue moves then, a doorbell or a read pointer had been lost.")
DMA_COUNTER(PROC, EVENTS, rings_full, "How often a queue of the engine sdma had no room for a group of packets.")
DMA_COUNTER(PROC, EVENTS, stream_echoes, "Calls in which the engine stream has copied the own block to a peer and back.")
DMA_COUNTER(PROC, EVENTS, imports, "Allocations of device memory of other processes that were opened.")
DMA_COUNTER(PROC, LEVEL, scratch_held,
    "Device memory that this process holds now for collectives: scratch memory, and temporary memory of engines. Unlike "
    "other counters, this value also decreases, and a tool reads the value itself.")
DMA_COUNTER(PROC, LEVEL, scratch_most, "The most device memory that this process has held at once for collectives.")
DMA_COUNTER(PROC, LEVEL, pinned_held,
    "Pinned host memory that this process holds now for copies between host and device. This value also decreases.")
DMA_COUNTER(PROC, LEVEL, pinned_most, "The most pinned host memory that this process has held at once for such copies.")
DMA_COUNTER(PROC, EVENTS, progress_turns,
    "Calls of the progress callback of coll/dma, which is registered only while its collectives are in progress.")
/* clang-format on */
