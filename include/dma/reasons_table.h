/*
 * Why coll/dma leaves its fast path, one row for each class of reasons: reasons after which a user does the same are one
 * row. What is special about a case is in the line that is reported, not here. This table makes the values of dma_reason_t
 * (DMA_REASON_<name>), the texts that coll_dma_verbose 2 and warnings print, the counters coll_dma_reason_<name>, and the
 * table of reasons in docs/user/counters.md. To add a row, there must be something that a user can do about it and about no
 * other row. Count it where the way is left, write a test that reads its counter or its value (test/reasons.sh looks for
 * one), and run `make -C build counters-doc`.
 *
 * This file is included several times, with this macro defined:
 *
 *     DMA_REASON(scope, name, text, effect, action)
 *         scope    COMM: counted for a communicator; PROC: for the process
 *         text     the reason, as part of a sentence; where it is found, details may be put in its place or behind it
 *         effect   what is counted, and what is done instead
 *         action   what a user can do about it
 *
 * Texts, effects and actions are shown by ompi_info and by the document, so they contain no markup.
 */
/* clang-format off */

/* ---- a communicator is not served ---- */
#define ASIDE "Set-ups that failed, or tried a file instead. Without a file that works the communicator is not " \
    "served: blocking calls go to the next component, others are done by messages."
DMA_REASON(COMM, arena_limit, "the limit of shared memory is reached", ASIDE,
    "Raise coll_dma_arena_bytes. Free communicators and persistent requests that are not used any more.")
DMA_REASON(COMM, arena_system, "the system gives no shared memory", ASIDE,
    "Free memory and space in /dev/shm and the session directory (TMPDIR). Raise the container's limit, ulimit -v or ulimit "
    "-f.")
DMA_REASON(COMM, peer_memory_closed, "the shared memory of a peer cannot be opened, or another is in its place", ASIDE,
    "Run the ranks of a node as one user and in one container, or let the containers share the session directory.")
DMA_REASON(COMM, versions_differ, "the ranks run different versions of this component", ASIDE,
    "Install the same version on all nodes. If it is the same, report it.")
DMA_REASON(COMM, rank_not_loaded, "a rank has not loaded coll/dma",
    "Communicators that are left to the next component, in all forms of calls, when their set-up has waited for a second.",
    "Give all ranks the component and the same parameters.")
#define NODES "Communicators over several nodes that are not served."
DMA_REASON(COMM, network_missing, "a rank has no network that this component can use", NODES,
    "The rank has printed why UCX cannot be used. Install UCX on all nodes; correct UCX_TLS and UCX_NET_DEVICES.")
DMA_REASON(COMM, nodes_differ, "the ranks disagree about who is on which node", NODES,
    "Check the host list of the job.")
DMA_REASON(COMM, addresses_shared, "a host has only network addresses that other hosts have too", NODES,
    "Give every host an address of its own, or name the interfaces in UCX_NET_DEVICES.")
DMA_REASON(COMM, descriptors, "the limit of open files is too low for connections to the ranks of other nodes", NODES,
    "Raise ulimit -n on all nodes.")
DMA_REASON(COMM, no_connection, "ranks of other nodes cannot reach each other", NODES,
    "Check network and firewall, and ucx_info -d on both nodes. Behind address translation set coll_dma_net_filter to 0.")

DMA_REASON(COMM, net_first_calls, "the first calls over several nodes go to others until the set-up begins",
    "Blocking calls that are among the first coll_dma_net_first_calls of their communicator: they go to the next component.",
    "Nothing, or set coll_dma_net_first_calls to 0.")
DMA_REASON(COMM, net_filter_refused, "the kernel takes no filter of connections",
    "Set-ups over several nodes on a rank whose connections over TCP are not filtered, although coll_dma_net_filter is set: "
    "the communicator is served, and every host can connect to the rank.",
    "Use a network that only trusted hosts reach, or a kernel that permits such filters.")

/* ---- host memory ---- */
DMA_REASON(COMM, cross_refused, "a rank cannot read a peer's memory",
    "Set-ups in which this rank has found that, reads that failed later, and communicators on which all ranks have given "
    "reading up: shared memory is used, and blocks are copied twice.",
    "Where it is acceptable, run containers with --cap-add=SYS_PTRACE, or set kernel.yama.ptrace_scope to 0.")

/* ---- a forced variant that does not fit ---- */
DMA_REASON(COMM, variant_unfit, "a variant does not fit",
    "Choices in which the variant that the user has named was not taken, or in which none fits: then the call fails. "
    "coll_dma_verbose 2 prints why.",
    "Name another variant, or auto.")

/* ---- device memory that goes through the host ---- */
#define STAGED "Calls of this rank in which its device memory was staged in host memory."
DMA_REASON(COMM, staged_type, "the datatype is not regular, or not contiguous where it has to be", STAGED,
    "Use contiguous data, or regular datatypes, and the same on all ranks.")
DMA_REASON(COMM, staged_no_engine, "no engine serves the device", STAGED,
    "Look at engine_refused.")
DMA_REASON(COMM, staged_memory, "there is no memory for what is kept of device memory, or to open it", STAGED,
    "Reduce the use of memory. The next call tries again.")
DMA_REASON(COMM, staged_off, "opening memory has failed too often on this communicator", STAGED,
    "Look at open_failed.")
DMA_REASON(COMM, staged_scratch, "there is no scratch memory", STAGED,
    "Free device memory, or raise coll_dma_scratch_bytes.")
DMA_REASON(COMM, staged_export, "its memory cannot be exported", STAGED,
    "Use plain device memory (hipMalloc, cudaMalloc).")
DMA_REASON(COMM, staged_peer, "another rank could not use an engine, or a rank could not open memory or bind its engine",
    STAGED,
    "Look at the counters of the other ranks, at open_failed and at bind_refused.")
DMA_REASON(COMM, staged_aside, "the call is done by messages", STAGED,
    "The communicator is not served: look at the reason of that.")
DMA_REASON(COMM, staged_relay, "there is no pinned memory", STAGED,
    "Raise ulimit -l.")

DMA_REASON(COMM, open_failed, "device memory of a peer cannot be opened",
    "Attempts of this rank. The call is staged on all ranks.",
    "Run the ranks of a node in one container, and let each rank see all its GPUs (Slurm: --gpu-bind=none). Use plain device "
    "memory.")
DMA_REASON(COMM, open_held, "the runtime still holds freed device memory of a peer where new memory of it is to be opened",
    "Attempts of this rank. The call is staged on all ranks.",
    "Make persistent requests before the first start, and wait for the queue now and then.")
DMA_REASON(COMM, bind_refused, "the engine does not serve the communicator",
    "Attempts to bind it; the warning says why. The call is staged on all ranks.",
    "Let fewer processes use the GPU: its queues are limited. After a failure of the engine, look at dmesg.")
DMA_REASON(COMM, joined, "other ranks have device memory",
    "Calls of this rank in host memory that went through pinned memory which the ranks share.",
    "Nothing, or use device memory on all ranks.")

/* ---- scratch memory in place of a buffer ---- */
DMA_REASON(COMM, memory_kind, "this kind of memory is not shared by IPC",
    "Calls of this rank in which scratch memory has taken the place of a buffer, or in which the buffer was staged if it is "
    "of an unknown kind.",
    "Use plain device memory (hipMalloc, cudaMalloc), whole allocations of one's own: no host, managed, fine-grained, pooled "
    "or imported memory.")
#define SCRATCH "Calls of this rank in which scratch memory has taken the place of a buffer."
DMA_REASON(COMM, memory_vmm, "virtually mapped memory was made without a handle type by which it can be shared", SCRATCH,
    "Make it with a handle type for POSIX file descriptors.")
DMA_REASON(COMM, memory_unshared, "the ranks cannot give each other file descriptors of virtually mapped memory", SCRATCH,
    "Run the ranks of a node as one user and in one container.")
DMA_REASON(COMM, memory_tied, "the runtime already keeps as much memory as it may for exports of small allocations", SCRATCH,
    "Receive in few large allocations instead of many small ones.")
DMA_REASON(COMM, memory_brief, "the last receive buffers were freed after a few calls, so peers do not open a new one",
    SCRATCH,
    "Keep receive buffers.")
DMA_REASON(COMM, scratch_device, "the buffers are not all on the communicator's device",
    "Calls of this rank in which scratch memory has taken the place of a buffer, or that were staged in host memory.",
    "Put both buffers in memory of one device, the same one for all calls.")
DMA_REASON(COMM, scratch_type, "the datatype is irregular, or the engine does not copy between the shapes", SCRATCH,
    "Use contiguous data or regular datatypes.")
DMA_REASON(COMM, scratch_bound, "scratch memory for the whole call would exceed its bound, or does not fit on the device",
    "Calls of this rank that went in pieces.",
    "Raise coll_dma_scratch_bytes, or free device memory.")

/* ---- persistent calls ---- */
DMA_REASON(COMM, channel_memory, "no shared memory is left for another persistent collective",
    "Persistent requests that are done by messages, or whose partitions engines do not wait for.",
    "Raise coll_dma_arena_bytes, or free requests.")
DMA_REASON(COMM, unprepared, "a rank cannot prepare the call for engines",
    "Persistent requests with device memory that are not prepared for engines: each start looks its buffers up like other "
    "calls.",
    "Use plain device memory, and contiguous or regular datatypes, on all ranks. Look at the reasons that are counted beside "
    "it.")
DMA_REASON(COMM, arm_limit, "coll_dma_prelaunch allows no more armed programs",
    "Starts of persistent requests after which nothing was armed: the next start writes its packets. Partitioned requests "
    "whose partitions engines do not wait for.",
    "Raise coll_dma_prelaunch, or free requests.")
DMA_REASON(COMM, arm_unable, "not all ranks' engines accept programs before the start, or the model sees no gain",
    "Starts of persistent requests after which nothing was armed: the next start writes its packets.",
    "Run coll_dma_accept, if a record is missing. If the model sees no gain: nothing.")
DMA_REASON(COMM, arm_refused, "the engine cannot arm these programs",
    "Starts of persistent requests after which nothing was armed: the next start writes its packets.",
    "Use smaller blocks, or fewer processes on a GPU.")
DMA_REASON(COMM, arm_expired, "MPI_Start has not come within coll_dma_armed_seconds",
    "Times that armed programs were removed.",
    "Raise coll_dma_armed_seconds, if other work on the GPU may wait that long.")
#define IN_STREAM "Starts of persistent requests in a queue of libmpix_dma that the host has made, because the stream " \
    "could not."
DMA_REASON(COMM, in_stream_unprepared, "the request is not prepared for engines, or has partitions", IN_STREAM,
    "Look at unprepared.")
DMA_REASON(COMM, in_stream_engine, "the runtime or the engine of a rank does not do this in streams of the application",
    IN_STREAM,
    "Set coll_dma_engine to stream, or use a newer runtime.")
DMA_REASON(COMM, in_stream_turns, "ranks share the device without MPS, and the call is out of place", IN_STREAM,
    "Run MPS, or call in place.")
DMA_REASON(COMM, in_stream_device, "the stream belongs to another device or context than the buffers", IN_STREAM,
    "Make the stream on the device of the buffers.")
DMA_REASON(COMM, in_stream_refused, "the runtime or the system refuses memory for it, or to write words in this stream",
    IN_STREAM,
    "Free memory; use a stream that is not captured.")
DMA_REASON(COMM, parts_unable, "the engine of a rank cannot wait for partitions, or not in this call",
    "Partitioned requests in device memory whose partitions engines do not wait for: the library starts a collective for each"
    " group of partitions.",
    "Run coll_dma_accept, if a record is missing. Use fewer processes on a GPU, or fewer partitions.")

/* ---- communicators that are left to other components when they are made ---- */
#define LEFT "Communicators that are left to other components when they are made."
DMA_REASON(PROC, comm_off, "coll_dma_priority of rank 0 of the job is negative, or coll_dma_nodes 0", LEFT,
    "Change the parameter.")
DMA_REASON(PROC, comm_kind, "it has two groups, or processes of several jobs, or the job continues after failures", LEFT,
    "Nothing: such communicators are not served.")
DMA_REASON(PROC, comm_not_loaded, "rank 0 of the job has not loaded coll/dma", LEFT,
    "Install the component on the host of rank 0.")
DMA_REASON(PROC, comm_no_ucx, "it is over several nodes, and the build of rank 0 of the job has no UCX", LEFT,
    "Install UCX's headers there, configure and build again.")
DMA_REASON(PROC, comm_below, "no component below it has all operations", LEFT,
    "Change the order of components that the info key of the communicator asks for.")

/* ---- the process ---- */
DMA_REASON(PROC, engine_none, "switched off",
    "Devices that no engine serves because coll_dma_engine is none: collectives in their memory go through the host.",
    "Set coll_dma_engine to auto.")
DMA_REASON(PROC, engine_refused, "the engine does not work on the device",
    "Engines that were tried on a device and are not used, or names of engines that do not exist; another engine may serve "
    "the device. coll_dma_verbose 2 prints what the engine says.",
    "coll_dma_info says what is missing.")
DMA_REASON(PROC, parts_order, "a partition is ready and an earlier one is not, for coll_dma_parts_patience",
    "Rounds of partitioned collectives that were taken back from the engines: the CPU starts what is left.",
    "Make partitions ready in their order, or raise coll_dma_parts_patience.")
DMA_REASON(PROC, parts_late, "partitions were not ready within coll_dma_armed_seconds of the start",
    "Rounds of partitioned collectives that were taken back from the engines: the CPU starts what is left.",
    "Start the request later, or raise coll_dma_armed_seconds.")
DMA_REASON(PROC, stream_events, "the runtime does not write words from a stream",
    "Devices on which the engine stream uses events, and the CPU writes the words.",
    "Use a newer driver.")
DMA_REASON(PROC, engine_failed, "the engine has failed in an earlier call",
    "Devices whose engine sdma has stopped, or has lost a completion. The call failed on all ranks; the device memory of "
    "communicators that are made later goes through the host.",
    "Look at dmesg. Set coll_dma_engine to stream.")
DMA_REASON(PROC, packets_unrecorded, "no record proves packets of this GPU",
    "Devices on which plain copies alone are used, and kinds of packets that the record has not tried: copies replace them, "
    "or the CPU does their work.",
    "Run coll_dma_accept on the node, or name its record in coll_dma_record.")
DMA_REASON(PROC, packet_failed, "it failed when coll_dma_accept or the self-test tried it",
    "Kinds of packets that are not used on a device: copies replace them, or the CPU does their work.",
    "Nothing. If it was the self-test, again and again: run coll_dma_accept.")
#undef ASIDE
#undef NODES
#undef STAGED
#undef SCRATCH
#undef IN_STREAM
#undef LEFT
/* clang-format on */
