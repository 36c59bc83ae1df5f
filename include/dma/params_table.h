/*
 * The MCA parameters of coll/dma, one row each. This table makes the members of dma_params_t, their defaults, the
 * registration with Open MPI as coll_dma_<name>, the checks of values, and the table in docs/user/parameters.md. To add a
 * parameter, add a row and run `make -C build params-doc`.
 *
 * This file is included several times, with these macros defined:
 *
 *     DMA_PARAM_NUMBER(type, name, default, least, most, zero, scope, level, unit, help)
 *         type    int, uint32_t, size_t, or double
 *         zero    ZERO: 0 is also allowed, below `least`, and the help text says what it means; RANGE: it is not
 *         scope   AGREED: in set-up all ranks of a communicator adopt the value of its rank 0, and of sizes the
 *                 smallest value of any rank; three that have to be known before are those of rank 0 of
 *                 the job (component/terms.c); LOCAL: each process uses its own value
 *         level   who sets it, by which ompi_info lists it: USER (level 1), TUNER (level 5), or TESTER (level 9)
 *     DMA_PARAM_NAME(name, bytes, values, scope, level, help)
 *         bytes   of the member, a string; the default is "auto"
 *         values  function in core/params.c that lists the allowed values
 *     DMA_PARAM_PATH(name, scope, level, help)
 *         a path; the default is none, NULL
 *
 * Help texts are shown by ompi_info and by the document, so they contain no markup.
 */
/* clang-format off */
DMA_PARAM_NUMBER(int, priority, 91, -100, 100, RANGE, AGREED, USER, "",
    "Priority of coll/dma among the collective components of a communicator. A negative value disables coll/dma. The "
    "default is above the 78 of coll/accelerator, which would copy small device buffers to the host before coll/dma "
    "sees them.")
DMA_PARAM_NUMBER(int, verbose, 0, 0, 100, RANGE, LOCAL, USER, "",
    "1: the collective that sets a communicator up prints one line that says whether coll/dma serves the communicator. "
    "2: also the reasons of choices, for example why a forced variant was not used.")
DMA_PARAM_NAME(variant, 32, host_variants, AGREED, TUNER,
    "Algorithm for host memory. With auto, and where the given algorithm does not fit a call, the cost model chooses.")
DMA_PARAM_PATH(profile, AGREED, TUNER,
    "File with the cost model's constants for this machine. Without a file, built-in constants are used, except "
    "for those that are measured (coll_dma_measure).")
DMA_PARAM_NUMBER(int, measure, 1, 0, 1, RANGE, AGREED, TUNER, "",
    "1: the cost of copies between processes is measured when a communicator is first used, which takes about 50 "
    "microseconds, unless coll_dma_profile is set. 0: the built-in constants are used.")
DMA_PARAM_NUMBER(size_t, arena_bytes, 33554432, 0, 1099511627776, RANGE, LOCAL, USER, "bytes",
    "Most shared memory that a process allocates for collectives. A communicator takes about 1 to 2.5 MiB of it. "
    "0: no communicator is served; blocking calls go to the next component, other calls are done by messages.")
DMA_PARAM_NUMBER(uint32_t, ring_depth, 8, 4, 65536, RANGE, AGREED, TUNER, "collectives",
    "Collectives of one communicator that may be in progress at once; further ones are queued. Rounded down to a power "
    "of two.")
DMA_PARAM_NUMBER(size_t, slot_bytes, 16384, 256, 1073741824, RANGE, AGREED, TUNER, "bytes",
    "Largest block that is copied through shared memory in one piece. This size shrinks as the number of ranks grows.")
DMA_PARAM_NUMBER(size_t, chunk_bytes, 65536, 4096, 1073741824, RANGE, AGREED, TUNER, "bytes",
    "Larger blocks go through shared memory in pieces of at most this size. This size shrinks as the number of ranks grows.")
DMA_PARAM_NUMBER(uint32_t, chunk_depth, 0, 0, 65536, RANGE, AGREED, TUNER, "pieces",
    "Pieces of a large block that may be in shared memory at once; rounded down to a power of two, at least 2. 0: so many "
    "that what a rank reads of all other ranks is about as large as a level-2 cache, at least 4.")
DMA_PARAM_NUMBER(int, cross_memory, 1, 0, 1, RANGE, AGREED, TUNER, "",
    "1: ranks read the memory of other processes directly, if set-up has shown that every pair of ranks can. 0: never.")
DMA_PARAM_NUMBER(double, warn, 60, 0, 1000000, RANGE, LOCAL, USER, "seconds",
    "Time after which a waiting collective prints, on one rank of each node, which rank it waits for. It goes on waiting. "
    "0: never.")
DMA_PARAM_NUMBER(double, entry_timeout, 0, 0, 1000000, RANGE, LOCAL, USER, "seconds",
    "Time after which a collective fails because a rank has not entered it. 0: never, as MPI requires: a late rank is "
    "not a failed rank.")
DMA_PARAM_NUMBER(double, timeout, 60, 0.1, 1000000, RANGE, LOCAL, TUNER, "seconds",
    "Time after which a GPU engine that has work and makes no progress counts as broken, and the collective fails. "
    "This time never ends a wait for another rank.")
DMA_PARAM_NAME(engine, 16, engines, LOCAL, USER,
    "Engine that moves device memory: sdma (the DMA engines of AMD Instinct GPUs), stream (copies of the GPU's own "
    "runtime, HIP or CUDA), none (copies through the host), or auto (the first engine that works).")
DMA_PARAM_NAME(queues, 16, queue_providers, LOCAL, TUNER,
    "Provider of the queues of the engine sdma: rocr (ROCr's own interface for DMA queues, from version 1.31 of its AMD "
    "extensions on), kfd (the kernel driver), or auto (the first of them that works). With HSA_ENABLE_SDMA=0 in the "
    "environment none is used.")
DMA_PARAM_PATH(record, LOCAL, USER,
    "File that coll_dma_accept has written: which packets have been proven on these GPUs. The engine sdma uses no others, "
    "except plain copies. Default: coll-dma/record in the directory for configuration files (--sysconfdir) of the build. "
    "all: every packet counts as proven.")
DMA_PARAM_NAME(gpu_variant, 32, gpu_variants, AGREED, TUNER,
    "Algorithm for device memory. With auto, and where the given algorithm does not fit a call, the cost model chooses.")
DMA_PARAM_NUMBER(uint32_t, gpu_queues, 0, 0, 256, RANGE, AGREED, TUNER, "queues",
    "Engine queues over which the variant b2b distributes its copies. 0: the cost model chooses.")
DMA_PARAM_PATH(gpu_profile, AGREED, TUNER,
    "File with the cost model's constants for GPU engines, like profiles/mi300x.txt, whose values are built in.")
DMA_PARAM_NUMBER(int, prelaunch, 2, 0, 1024, RANGE, LOCAL, TUNER, "requests",
    "Most persistent collectives of a process that are armed at once: the engines have their programs before MPI_Start, where "
    "the cost model sees a gain. 0: none.")
DMA_PARAM_NUMBER(double, armed_seconds, 1, 0, 1000000, RANGE, LOCAL, TUNER, "seconds",
    "Longest time that the program of a persistent collective waits in the engines for MPI_Start. Then it is removed until "
    "the next MPI_Start.")
DMA_PARAM_NUMBER(double, parts_patience, 0.0002, 0, 1000000, RANGE, LOCAL, TUNER, "seconds",
    "How long partitions that are ready may wait in an engine behind one that is not. Then the CPU starts what is left of that "
    "round of the partitioned collective.")
DMA_PARAM_NAME(own_copy, 8, own_copies, LOCAL, TUNER,
    "How the engine stream copies a rank's own block when the call is not in place: copy, graph (the same copy, launched "
    "as a graph), echo (to a peer and back, so that no compute unit is used), or auto (graph if the runtime has graphs; "
    "echo while such copies have been late).")
DMA_PARAM_NUMBER(size_t, scratch_bytes, 268435456, 0, 1099511627776, RANGE, LOCAL, USER, "bytes",
    "Most device memory that a process holds, on all its devices together, in place of buffers that engines cannot use "
    "where they are. Calls that need more are carried out in pieces. Where nothing is left, and with 0, they go through the "
    "host.")
DMA_PARAM_NUMBER(size_t, pinned_bytes, 67108864, 0, 1099511627776, RANGE, LOCAL, USER, "bytes",
    "Most pinned host memory that a process holds for copies between host and device. Data beyond that pass through pinned "
    "memory in pieces. Where nothing is left, and with 0, they go through pageable memory, which is slow.")
DMA_PARAM_NUMBER(int, stream_sync, 0, 0, 1, RANGE, LOCAL, USER, "",
    "1: a collective first waits for the default stream of the device that holds its buffers. 0: the caller has "
    "synchronized, as GPU-aware MPI requires.")
DMA_PARAM_NUMBER(int, progress_thread, 1, 0, 1, RANGE, LOCAL, TUNER, "",
    "1: while a non-blocking or persistent collective in device memory waits for a rank that has not entered it, a sleeping "
    "thread of the process waits for that rank and then starts the copies. 0: the next MPI call starts them.")
DMA_PARAM_NUMBER(int, nodes, 1, 0, 1, RANGE, AGREED, USER, "",
    "1: communicators over several nodes are served too, over UCX, if the component was built with UCX. 0: only "
    "communicators of one node are served.")
DMA_PARAM_NUMBER(uint32_t, net_first_calls, 64, 0, 1000, RANGE, AGREED, USER, "collectives",
    "Number of small blocking collectives at the beginning of a communicator over several nodes that go to the next "
    "component. A longer one counts once more for every 2 KiB of a block, an all-to-all-v counts 8 times. The next "
    "collective sets the communicator up, which loads UCX and takes some milliseconds of processor time. A non-blocking or "
    "persistent collective sets it up at once. 0: the first collective does. So it is also if "
    "the MCA parameter coll names dma and this one is not set.")
DMA_PARAM_NAME(net_variant, 32, net_variants, AGREED, TUNER,
    "Algorithm between nodes. With auto, and where the given algorithm does not fit a call, the cost model chooses.")
DMA_PARAM_PATH(net_profile, AGREED, TUNER,
    "File with the cost model's constants for the network, like profiles/bed-1gbit.txt. Without a file: the constants of "
    "nodes with eight adapters of 400 Gbit/s, or if TCP is the only transport of UCX, of 10 Gbit/s Ethernet.")
DMA_PARAM_NUMBER(size_t, net_chunk_bytes, 0, 4096, 1073741824, ZERO, AGREED, TUNER, "bytes",
    "Largest message of pipelined blocks between nodes. Other messages are cut at 8 times this size or 256 KiB, whichever "
    "is less, or at this size if that is more. No message has more than 1 MiB. 0: chosen from the network profile, 16 KiB to "
    "1 MiB.")
DMA_PARAM_NUMBER(int, net_filter, 1, 0, 1, RANGE, LOCAL, USER, "",
    "1: over TCP and IPv4 only the other hosts of the job may connect to a process. 0: any host and user may. That is "
    "needed where addresses are translated (NAT) between the nodes.")
DMA_PARAM_NUMBER(double, keepalive, 10, 2, 32767, RANGE, LOCAL, TUNER, "seconds",
    "Time after which a dead link between nodes is detected and its collectives fail; up to four times as long while the "
    "process still exchanges large messages with other nodes. With 5 or more, interruptions of up to three quarters of this "
    "time only cost time. Over TCP, a link is dead when no byte has come from the other host, to any process.")
DMA_PARAM_PATH(trace, LOCAL, USER,
    "Directory into which each process writes a file with a time line of its collectives, for coll_dma_trace. It is made "
    "if it is not there.")
DMA_PARAM_NUMBER(size_t, trace_bytes, 67108864, 1048576, 1099511627776, RANGE, LOCAL, TUNER, "bytes",
    "Most that a process writes into its file of coll_dma_trace; later events are only counted. A call takes 130 to 500 "
    "bytes, and 32 for each copy of an engine and each message between nodes.")
DMA_PARAM_NAME(trace_stamps, 8, stamp_choices, LOCAL, TUNER,
    "Which traced calls of the engine stream are measured by events, which takes some 7 microseconds: all, or some (every "
    "16th call on average, and calls that begin 0.3 milliseconds after the one before or later). auto: some.")
DMA_PARAM_PATH(sysfs, LOCAL, TESTER,
    "Root of the kernel's description of GPUs and their links. Without it, /sys/class/kfd/kfd/topology.")
/* clang-format on */
