/*
 * Why coll/dma leaves its fast path, one row for each reason. This table makes the values of dma_reason_t
 * (DMA_REASON_<name>), the texts that coll_dma_verbose 2 and warnings print, the counters coll_dma_reason_<name>, and their
 * rows in docs/user/counters.md. To add a reason, add a row, count it where the way is left, write a test that reads its
 * counter or its value (test/reasons.sh looks for one), and run `make -C build counters-doc`.
 *
 * This file is included several times, with this macro defined:
 *
 *     DMA_REASON(scope, name, text, effect)
 *         scope    COMM: counted for a communicator; PROC: for the process
 *         text     the reason, as part of a sentence; where it is found, details may be put in its place or behind it
 *         effect   what is counted, and what is done instead
 *
 * Texts and effects are shown by ompi_info and by the document, so they contain no markup.
 */
/* clang-format off */

/* ---- a communicator is not served ---- */
#define ASIDE "Set-ups that failed or tried a file instead, for this reason. Without a file that works the communicator is not " \
    "served: blocking calls go to the next component, others are done by messages."
DMA_REASON(COMM, arena_zero, "its limit is 0", ASIDE)
DMA_REASON(COMM, arena_limit, "its limit is reached", ASIDE)
DMA_REASON(COMM, arena_system, "the system gives no shared memory", ASIDE)
DMA_REASON(COMM, arena_file_limit, "the limit of a file's size", ASIDE)
DMA_REASON(COMM, peer_memory_closed, "the shared memory of a peer cannot be opened through /proc", ASIDE)
DMA_REASON(COMM, peer_file_closed, "the file of a peer's shared memory cannot be opened", ASIDE)
DMA_REASON(COMM, peer_memory_wrong, "the shared memory of a peer has the wrong size or owner", ASIDE)
DMA_REASON(COMM, peer_memory_foreign, "the shared memory found in the place of a peer's is not its own", ASIDE)
DMA_REASON(COMM, peer_memory_unmapped, "no memory to map a peer's shared memory", ASIDE)
DMA_REASON(COMM, versions_differ, "the ranks run different versions of this component", ASIDE)
DMA_REASON(COMM, layout_invalid, "a rank's shared memory is laid out in a way that cannot be", ASIDE)
DMA_REASON(COMM, block_outside, "a rank's block is outside its shared memory", ASIDE)
DMA_REASON(COMM, rank_not_loaded, "a rank has not loaded coll/dma",
    "Communicators that are left to the next component for this reason, in all forms of calls, when their set-up has waited for a "
    "second.")
#undef ASIDE
#define ASIDE "Communicators over several nodes that are not served for this reason."
DMA_REASON(COMM, network_missing, "a rank has no network that this component can use", ASIDE)
DMA_REASON(COMM, setup_memory, "a rank has no memory for its set-up", ASIDE)
DMA_REASON(COMM, nodes_differ, "the ranks disagree about who is on which node", ASIDE)
DMA_REASON(COMM, addresses_shared, "a host has only network addresses that other hosts have too", ASIDE)
DMA_REASON(COMM, descriptors, "the limit of open files is too low for connections to the ranks of other nodes", ASIDE)
DMA_REASON(COMM, node_memory, "no shared memory for the ranks of a node", ASIDE)
DMA_REASON(COMM, no_connection, "no connection to a rank", ASIDE)
DMA_REASON(COMM, unreachable, "ranks of other nodes cannot reach each other", ASIDE)
#undef ASIDE

DMA_REASON(COMM, net_first_calls, "the first calls over several nodes go to others until the set-up begins",
    "Blocking calls that are among the first coll_dma_net_first_calls of their communicator: they go to the next component.")
DMA_REASON(COMM, network_unusable, "this process has no network to other nodes",
    "Set-ups on the rank that has none; all ranks step aside.")
DMA_REASON(COMM, net_filter_refused, "the kernel takes no filter of connections",
    "Set-ups over several nodes on a rank whose connections over TCP are not filtered, although coll_dma_net_filter is set: the "
    "communicator is served, and every host can connect to the rank.")

/* ---- host memory ---- */
DMA_REASON(COMM, cross_untried, "the kernel does not let this rank read a peer's memory",
    "Set-ups that have found this. All ranks use shared memory: blocks are copied twice.")
DMA_REASON(COMM, cross_refused, "this rank could not read a peer's memory",
    "Communicators on which a read failed after set-up: shared memory is used, for this block at once.")
DMA_REASON(COMM, cross_given_up, "a rank could not read a peer's memory",
    "Communicators on which all ranks use shared memory from then on.")

/* ---- a forced variant that does not fit ---- */
#define FORCED "Choices in which the variant that the user has named was not taken for this reason."
DMA_REASON(COMM, variant_operation, "it does not do this operation", FORCED)
DMA_REASON(COMM, variant_line, "the block is larger than its place in a descriptor", FORCED)
DMA_REASON(COMM, variant_slot, "the block is larger than its place in a slot", FORCED)
DMA_REASON(COMM, variant_chunks, "there is no room for chunk buffers", FORCED)
DMA_REASON(COMM, variant_pairs, "there is no room for pair buffers", FORCED)
DMA_REASON(COMM, variant_overwrites, "in place, what a peer reads would be overwritten", FORCED)
DMA_REASON(COMM, variant_reading, "not every pair of ranks can read each other's memory", FORCED)
DMA_REASON(COMM, variant_exchanges, "the blocks of an all-to-all in place have to be exchanged", FORCED)
DMA_REASON(COMM, variant_no_exchange, "nothing is to be exchanged out of place", FORCED)
DMA_REASON(COMM, variant_queues, "the engine has fewer queues than there are peers", FORCED)
DMA_REASON(COMM, variant_pair_queues, "the engine has fewer queues than there are pairs of peers", FORCED)
DMA_REASON(COMM, variant_two_places, "not all engines write two places at once", FORCED)
DMA_REASON(COMM, variant_nodes, "nodes have different numbers of ranks", FORCED)
#undef FORCED
DMA_REASON(COMM, variant_none, "no variant does this operation",
    "Choices in which no variant fits: the call fails.")

/* ---- device memory that goes through the host ---- */
#define STAGED "Calls of this rank in which its device memory was staged in host memory for this reason."
DMA_REASON(COMM, staged_type, "the datatype is not regular", STAGED)
DMA_REASON(COMM, staged_in_place, "blocks that are exchanged in place are not contiguous", STAGED)
DMA_REASON(COMM, staged_kind, "the runtime does not say of what kind the memory is", STAGED)
DMA_REASON(COMM, staged_no_engine, "no engine serves the device", STAGED)
DMA_REASON(COMM, staged_device_memory, "there is no memory for what is kept of a device", STAGED)
DMA_REASON(COMM, staged_comm_memory, "there is no memory for what a communicator keeps of device memory", STAGED)
DMA_REASON(COMM, staged_off, "opening memory has failed too often on this communicator", STAGED)
DMA_REASON(COMM, staged_scratch, "there is no scratch memory", STAGED)
DMA_REASON(COMM, staged_scratch_runtime, "the runtime cannot use scratch memory", STAGED)
DMA_REASON(COMM, staged_export, "its memory cannot be exported", STAGED)
DMA_REASON(COMM, staged_export_memory, "there is no memory for an export", STAGED)
DMA_REASON(COMM, staged_peer, "another rank has no device memory that an engine serves", STAGED)
DMA_REASON(COMM, staged_shapes, "an engine does not copy between shapes", STAGED)
DMA_REASON(COMM, staged_vote, "a rank could not open memory, or bind its engine", STAGED)
DMA_REASON(COMM, staged_aside, "the call is done by messages", STAGED)
DMA_REASON(COMM, staged_room, "there is no scratch memory to pack the rows of a datatype", STAGED)
DMA_REASON(COMM, staged_devices, "the buffers are on two devices", STAGED)
DMA_REASON(COMM, staged_relay, "there is no pinned memory", STAGED)
#undef STAGED
DMA_REASON(COMM, open_failed, "device memory of a peer cannot be opened",
    "Attempts of this rank. The call is staged on all ranks.")
DMA_REASON(COMM, open_held, "the runtime still holds freed device memory of a peer where new memory of it is to be opened",
    "Attempts of this rank. The call is staged on all ranks.")
DMA_REASON(COMM, open_memory, "there is no memory to open device memory of a peer",
    "Attempts of this rank. The call is staged on all ranks.")
DMA_REASON(COMM, target_invalid, "a peer has published memory outside of its allocation",
    "Calls in which this rank has found that. The call is staged on all ranks.")
DMA_REASON(COMM, bind_unregistered, "its memory cannot be registered",
    "Attempts to register the communicator's shared memory with the device. The call is staged on all ranks.")
DMA_REASON(COMM, bind_refused, "the engine does not serve the communicator",
    "Attempts to bind it, for whatever reason; the engines count their reasons. The call is staged on all ranks.")
DMA_REASON(COMM, opening_off, "opening has failed in several calls in a row",
    "Communicators whose device memory goes through the host from then on.")

DMA_REASON(COMM, joined, "other ranks have device memory",
    "Calls of this rank in host memory that went through pinned memory which the ranks share, for this reason.")

/* ---- scratch memory in place of a buffer ---- */
#define SCRATCH "Calls of this rank in which scratch memory has taken the place of a buffer for this reason."
DMA_REASON(COMM, memory_host, "host memory has no IPC handle", SCRATCH)
DMA_REASON(COMM, memory_fine, "fine-grained device memory is not shared by IPC", SCRATCH)
DMA_REASON(COMM, memory_pool, "memory of a pool has no IPC handle of its own", SCRATCH)
DMA_REASON(COMM, memory_vmm, "virtually mapped memory was made without a handle type by which it can be shared", SCRATCH)
DMA_REASON(COMM, memory_unshared, "the ranks cannot give each other file descriptors of virtually mapped memory", SCRATCH)
DMA_REASON(COMM, memory_tied, "the runtime already keeps as much memory as it may for exports of small allocations", SCRATCH)
DMA_REASON(COMM, memory_brief, "the last receive buffers were freed after a few calls, so peers do not open a new one", SCRATCH)
DMA_REASON(COMM, memory_managed, "managed memory migrates: it has no IPC handle", SCRATCH)
DMA_REASON(COMM, memory_imported, "imported memory must not be exported again", SCRATCH)
DMA_REASON(COMM, memory_extent, "the runtime does not say where the allocation begins and ends", SCRATCH)
DMA_REASON(COMM, memory_partial, "the buffer does not end inside its allocation", SCRATCH)
DMA_REASON(COMM, scratch_send, "what is sent is in host memory or on another device than what is received", SCRATCH)
DMA_REASON(COMM, scratch_device, "the buffers are not on the communicator's device", SCRATCH)
DMA_REASON(COMM, scratch_type, "the datatype is irregular", SCRATCH)
DMA_REASON(COMM, scratch_shape, "the engine does not copy between shapes", SCRATCH)
DMA_REASON(COMM, scratch_bound, "scratch memory for the whole call would exceed its bound, or does not fit on the device",
    "Calls of this rank that went in pieces for this reason.")
#undef SCRATCH

/* ---- persistent calls ---- */
DMA_REASON(COMM, channel_memory, "no shared memory is left for another persistent collective",
    "Persistent requests that are done by messages.")
#define UNPREPARED "Persistent requests with device memory that this rank did not prepare for engines for this reason: each start " \
    "looks its buffers up like other calls."
DMA_REASON(COMM, unprepared_staged, "its buffers have to be staged in host memory", UNPREPARED)
DMA_REASON(COMM, unprepared_engine, "this rank has no engine for it", UNPREPARED)
DMA_REASON(COMM, unprepared_scratch, "its buffers need scratch memory", UNPREPARED)
DMA_REASON(COMM, unprepared_export, "its receive buffer cannot be exported", UNPREPARED)
DMA_REASON(COMM, unprepared_open, "memory of a peer could not be opened, or the engine not be bound to a plan", UNPREPARED)
#undef UNPREPARED
DMA_REASON(COMM, unprepared_peer, "another rank could not prepare the call for engines",
    "Persistent requests with device memory that this rank could have prepared for engines: each start looks its buffers up "
    "like other calls.")
#define UNARMED "Starts of persistent requests after which nothing was armed for this reason: the next start writes its packets."
DMA_REASON(COMM, arm_limit, "as many programs are armed as coll_dma_prelaunch allows", UNARMED)
DMA_REASON(COMM, arm_off, "coll_dma_prelaunch is 0", UNARMED)
DMA_REASON(COMM, arm_unable, "not all ranks' engines accept programs before the start", UNARMED)
DMA_REASON(COMM, arm_slower, "the model says that armed programs take longer than packets that the start writes", UNARMED)
DMA_REASON(COMM, arm_refused, "the engine cannot arm these programs", UNARMED)
#undef UNARMED
#define IN_STREAM "Starts of persistent requests in a queue of libmpix_dma that the host has made, because the stream could not."
DMA_REASON(COMM, in_stream_unprepared, "the request is not prepared for engines, or has partitions", IN_STREAM)
DMA_REASON(COMM, in_stream_runtime, "the runtime has no waits for several processes", IN_STREAM)
DMA_REASON(COMM, in_stream_engine, "the engine of this rank or of a peer does not submit copies to streams of the application", IN_STREAM)
DMA_REASON(COMM, in_stream_turns, "ranks share the device without MPS, and the call is out of place", IN_STREAM)
DMA_REASON(COMM, in_stream_memory, "this rank has no memory for it", IN_STREAM)
DMA_REASON(COMM, in_stream_unregistered, "the device cannot access the shared memory of all ranks", IN_STREAM)
DMA_REASON(COMM, in_stream_device, "the stream belongs to another device or context than the buffers", IN_STREAM)
DMA_REASON(COMM, in_stream_refused, "the runtime refuses to write words in this stream, or memory for an exchange", IN_STREAM)
#undef IN_STREAM
#define PARTED "Partitioned requests in device memory whose partitions engines do not wait for, for this reason: the library starts a " \
    "collective for each group of partitions."
DMA_REASON(COMM, parts_limit, "as many requests are armed as coll_dma_prelaunch allows", PARTED)
DMA_REASON(COMM, parts_memory, "no shared memory is left for the words of its partitions", PARTED)
DMA_REASON(COMM, parts_unable, "the engines of this rank or of a peer cannot wait, or do not see all words", PARTED)
DMA_REASON(COMM, parts_unarmed, "the engine of this rank cannot arm its programs", PARTED)
DMA_REASON(COMM, parts_peer, "the engine of another rank cannot arm its programs", PARTED)
#undef PARTED
DMA_REASON(COMM, arm_expired, "MPI_Start has not come within coll_dma_armed_seconds", "Times that armed programs were removed.")

/* ---- communicators that are left to other components when they are made ---- */
#define LEFT "Communicators that are left to other components when they are made, for this reason."
DMA_REASON(PROC, comm_priority, "coll_dma_priority of rank 0 of the job is negative", LEFT)
DMA_REASON(PROC, comm_ulfm, "the job continues after failures", LEFT)
DMA_REASON(PROC, comm_inter, "it has two groups", LEFT)
DMA_REASON(PROC, comm_jobs, "its processes are of several jobs", LEFT)
DMA_REASON(PROC, comm_not_loaded, "rank 0 of the job has not loaded coll/dma", LEFT)
DMA_REASON(PROC, comm_nodes_off, "it is over several nodes, and coll_dma_nodes of rank 0 of the job is 0", LEFT)
DMA_REASON(PROC, comm_no_ucx, "it is over several nodes, and the build of rank 0 of the job has no UCX", LEFT)
DMA_REASON(PROC, comm_below, "no component below it has all operations", LEFT)
#undef LEFT

/* ---- the process ---- */
#define DEVICE "Devices that no engine serves for this reason, so that collectives in their memory go through the host."
DMA_REASON(PROC, engine_none, "switched off", DEVICE)
DMA_REASON(PROC, engine_unknown, "there is no such engine", DEVICE)
#undef DEVICE
DMA_REASON(PROC, engine_refused, "the engine does not work on the device",
    "Engines that were tried on a device and are not used, for whatever reason; another one may serve the device. "
    "coll_dma_verbose 2 prints what the engine says.")
#define SDMA "Devices that the engine sdma does not serve for this reason. engine_refused counts them, too."
DMA_REASON(PROC, sdma_vendor, "the device is not AMD's", SDMA)
DMA_REASON(PROC, sdma_location, "the runtime does not say where the device is", SDMA)
DMA_REASON(PROC, sdma_driver, "there is no KFD topology: the amdgpu driver is not loaded, or sysfs is not mounted", SDMA)
DMA_REASON(PROC, sdma_topology, "KFD's topology cannot be read, or has more than 256 nodes", SDMA)
DMA_REASON(PROC, sdma_hidden, "no GPU in KFD's topology may be read by this process", SDMA)
DMA_REASON(PROC, sdma_no_gpu, "there is no GPU in KFD's topology", SDMA)
DMA_REASON(PROC, sdma_generation, "its SDMA engines are of another generation than gfx9, with other packets", SDMA)
DMA_REASON(PROC, sdma_version, "it does not say its gfx version", SDMA)
DMA_REASON(PROC, sdma_absent, "the device is not among the GPUs that the kernel describes", SDMA)
DMA_REASON(PROC, sdma_partitions, "several GPUs or partitions have the PCI address of the device", SDMA)
DMA_REASON(PROC, sdma_partition_unknown, "the runtime does not say which partition of a GPU the device is", SDMA)
DMA_REASON(PROC, sdma_providers, "no provider makes queues", SDMA)
DMA_REASON(PROC, sdma_memory, "no memory for the engine", SDMA)
DMA_REASON(PROC, sdma_test_memory, "no memory for the self-test", SDMA)
DMA_REASON(PROC, sdma_test_queue, "no queue for the self-test", SDMA)
DMA_REASON(PROC, sdma_test_copy, "a queue on the device does not do what it is told", SDMA)
DMA_REASON(PROC, sdma_test_fault, "the GPU faulted in the self-test", SDMA)
#undef SDMA
#define QUEUES "Providers of queues that the engine sdma has passed over for this reason; another one may serve the device. " \
    "coll_dma_verbose 2 names them, if none does."
DMA_REASON(PROC, queues_environment, "HSA_ENABLE_SDMA=0 in the environment", QUEUES)
DMA_REASON(PROC, queues_unknown, "there is no queue provider of this name", QUEUES)
DMA_REASON(PROC, queues_unnamed, "it cannot name engines, and some are not there", QUEUES)
DMA_REASON(PROC, queues_record, "by its record copies failed", QUEUES)
DMA_REASON(PROC, queues_memory, "no memory", QUEUES)
DMA_REASON(PROC, queues_counters, "its counters do not begin equal", QUEUES)
DMA_REASON(PROC, queues_engine_full, "no queue is free on the engine", QUEUES)
DMA_REASON(PROC, rocr_absent, "ROCr is not loaded", QUEUES)
DMA_REASON(PROC, rocr_lacks, "this version of ROCr lacks a function", QUEUES)
DMA_REASON(PROC, rocr_no_queues, "this version of ROCr makes no DMA queues", QUEUES)
DMA_REASON(PROC, rocr_no_pointers, "this version of ROCr does not show the pointers of DMA queues", QUEUES)
DMA_REASON(PROC, rocr_stopped, "ROCr does not run", QUEUES)
DMA_REASON(PROC, rocr_several, "ROCr shows several devices with this PCI address", QUEUES)
DMA_REASON(PROC, rocr_hidden, "ROCr does not show the device", QUEUES)
DMA_REASON(PROC, rocr_memory, "ROCr has no fine-grained host memory", QUEUES)
DMA_REASON(PROC, rocr_engine, "ROCr does not know the engine", QUEUES)
DMA_REASON(PROC, rocr_kernel, "the kernel driver cannot make queues on a given engine", QUEUES)
DMA_REASON(PROC, rocr_refused, "ROCr makes no queue", QUEUES)
DMA_REASON(PROC, rocr_elsewhere, "ROCr has made a queue on another engine", QUEUES)
DMA_REASON(PROC, rocr_ring, "ROCr does not show the ring or the pointers of the queue", QUEUES)
DMA_REASON(PROC, rocr_doorbell, "the queue has no doorbell of hardware", QUEUES)
DMA_REASON(PROC, rocr_no_engine, "the device has no such engine", QUEUES)
DMA_REASON(PROC, thunk_absent, "ROCr has no libhsakmt of its own in this process", QUEUES)
DMA_REASON(PROC, thunk_lacks, "this version of libhsakmt lacks a function", QUEUES)
DMA_REASON(PROC, thunk_foreign, "ROCr does not use the libhsakmt that is in this process", QUEUES)
DMA_REASON(PROC, thunk_refused, "libhsakmt makes no queue", QUEUES)
DMA_REASON(PROC, kfd_closed, "the driver's file cannot be opened", QUEUES)
DMA_REASON(PROC, kfd_interface, "its interface is not the one we know", QUEUES)
DMA_REASON(PROC, kfd_full, "the device has all the queues it may have", QUEUES)
DMA_REASON(PROC, kfd_invalid, "the kernel does not accept the engine or the memory", QUEUES)
DMA_REASON(PROC, kfd_denied, "the kernel does not let this process use the device", QUEUES)
DMA_REASON(PROC, kfd_refused, "the kernel makes no queue", QUEUES)
DMA_REASON(PROC, kfd_ring_memory, "the kernel does not accept memory for a ring", QUEUES)
DMA_REASON(PROC, kfd_ring_map, "the kernel does not map memory for a ring", QUEUES)
DMA_REASON(PROC, kfd_doorbells, "the doorbells cannot be mapped", QUEUES)
#undef QUEUES
DMA_REASON(PROC, stream_memory, "no memory for the engine stream",
    "Devices that the engine stream does not serve for this reason.")
DMA_REASON(PROC, stream_own_copy, "there is no such method to copy the own block",
    "Devices that the engine stream does not serve for this reason.")
DMA_REASON(PROC, stream_runtime, "the runtime makes no stream, or no event",
    "Devices that the engine stream does not serve for this reason.")
#define BIND "Attempts to bind the engine to a communicator that have failed for this reason: the call is staged on all ranks."
DMA_REASON(PROC, stream_bind_memory, "no memory to bind the engine stream", BIND)
DMA_REASON(PROC, sdma_bind_memory, "no memory to bind the engine sdma", BIND)
DMA_REASON(PROC, sdma_bind_fault, "the GPU has faulted", BIND)
DMA_REASON(PROC, sdma_bind_stopped, "the engine was stopped after a failure", BIND)
DMA_REASON(PROC, queues_taken, "the driver gives this process no queue", BIND)
#undef BIND
#define ARM "Attempts to arm programs of the engine sdma that have failed for this reason: the start writes its packets."
DMA_REASON(PROC, sdma_arm_child, "the queues belong to the parent of this process", ARM)
DMA_REASON(PROC, sdma_arm_late, "the engine has not skipped what was revoked", ARM)
DMA_REASON(PROC, sdma_arm_queues, "there is no queue on an engine that may wait", ARM)
DMA_REASON(PROC, sdma_arm_memory, "no memory to write the packets", ARM)
DMA_REASON(PROC, sdma_arm_size, "a program is too large, or needs temporary memory", ARM)
#undef ARM
#define TAKEN "Rounds of partitioned collectives that were taken back from the engines for this reason: the CPU starts what is left."
DMA_REASON(PROC, parts_order, "a partition is ready and an earlier one is not, for coll_dma_parts_patience", TAKEN)
DMA_REASON(PROC, parts_late, "partitions were not ready within coll_dma_armed_seconds of the start", TAKEN)
#undef TAKEN
DMA_REASON(PROC, stream_events, "the runtime does not write words from a stream",
    "Devices on which the engine stream uses events, and the CPU writes the words.")
DMA_REASON(PROC, engine_failed, "the engine has failed in an earlier call",
    "Devices whose engine sdma has stopped, or has lost a completion. The call failed on all ranks; the device memory of "
    "communicators that are made later goes through the host.")
#define PACKETS "Kinds of packets that are not used on a device for this reason: copies replace them, or the CPU does their work."
DMA_REASON(PROC, packets_unrecorded, "no record proves packets of this GPU", "Devices on which plain copies alone are used.")
DMA_REASON(PROC, packet_failed, "it failed when coll_dma_accept tried it", PACKETS)
DMA_REASON(PROC, packet_untried, "coll_dma_accept has not tried it", PACKETS)
DMA_REASON(PROC, packet_broken, "it failed in the self-test", PACKETS)
#undef PACKETS
/* clang-format on */
