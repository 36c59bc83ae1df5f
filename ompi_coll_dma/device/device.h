/*
 * Calls whose buffers are device memory.
 *
 * What a buffer is, only its rank knows. So ranks meet before any data moves: a rank whose buffers its GPU's engine could
 * serve enters with DMA_SIGN_DEVICE in its descriptor, no data, and a record that says where its receive buffer is. All
 * others enter as ever. Every rank sees all descriptors, and so all decide alike:
 *
 *     not all are DEVICE    the host plan runs, as if nothing had happened: ranks with device memory copy what they send to
 *                           host memory and enter once more, and copy what they receive back
 *     all are DEVICE        each opens the others' memory and, if any record was new to its readers, says how that went
 *                           (the agreed line). If all could: the GPU plan. If one could not: the host plan, as above
 *
 * A host rank does nothing for this: it learns from the descriptor of a DEVICE rank that the data come later. A device
 * buffer that no engine could serve (an irregular datatype, memory without a handle) is staged by its own rank before it
 * enters, and nobody else has to know. Vectors and the like are blocks with a shape (gpu/shape.h). An engine that copies
 * between shapes takes them where they are: the record says which shape, and if not all ranks' engines can do it, all see
 * that, and the host plan runs. For one that does not they are packed inside the device.
 *
 * Records carry numbers of exports, and each rank remembers what the last DEVICE_SLOTS of each rank were, its own among
 * them, as they are learned: so the owner's list is that of its peers, and both replace the same entry in the same call. It
 * says `fresh` when a number is not in the list, or was learned in a meeting that has failed: peers open it once more. As
 * long as buffers are re-used no rank waits for anybody's opening. What a peer has open stays allocated, though its owner has
 * freed it; so who says fresh also says which of its slots' memory is gone, and all of a list together are bounded in bytes.
 *
 * A program calls again and again with the same buffers. A rank whose call is as the last that an engine has served, and that
 * has told nothing else since, says so in its brief; if all do, every place is that of the last call which has been bound,
 * nothing is looked up, and the engine's programs are the same.
 *
 * A rank may be through with a call, and in the next one, while a peer that it needs nothing from still reads its record:
 * records belong to descriptors, and are overwritten when those are.
 *
 * A persistent call meets once, when it is made; it is frozen then, and its starts need no descriptors: a rank's ready
 * word (engine/gpu.h) says that it has started. If engines of all ranks take programs beforehand, the next start's are
 * armed as soon as a start has completed; else a rank submits when all ready words are there.
 *
 *     dma_brief_t    number | offset | largest | fresh, more    32 bytes, in the line of the descriptor: all there is to
 *                                                               read of a peer whose allocation is known
 *     dma_record_t   card | nonce | export | gone               if fresh: 256 bytes
 *                    shape                                      if there is one
 *     then           for every block of the receive buffer: displacement, bytes   if there is a table: 16 bytes each
 */
#ifndef DMA_TASK_DEVICE_H
#define DMA_TASK_DEVICE_H

#include "core/comm.h"
#include "engine/gpu.h"
#include "gpu/ipc.h"

#define DEVICE_SLOTS      32                   /* allocations of each peer that a communicator keeps open */
#define DEVICE_KEPT_BYTES (UINT64_C(16) << 30) /* of them together, unless there is only one */
#define DEVICE_PATIENCE   3 /* meetings in a row that fail before the communicator's device memory is staged for good */

typedef struct dma_brief {
    uint64_t number;  /* of the export */
    int64_t offset;   /* of the receive buffer in the allocation */
    uint64_t largest; /* bytes of the largest block */
    uint32_t fresh;
    uint32_t more; /* DMA_BRIEF_* */
} dma_brief_t;

#define DMA_BRIEF_TABLE 0x1 /* there is a table */
#define DMA_BRIEF_SHAPE 0x2 /* blocks have a shape, and the record says which */
#define DMA_BRIEF_AGAIN 0x4 /* as in this rank's last call, which its engine served */

_Static_assert(sizeof(dma_brief_t) <= 32, "it shares the line of the descriptor's header");

typedef struct dma_record {
    dma_gpu_traits_t traits;
    uint64_t nonce;      /* of this process, as an exporter */
    dma_export_t export; /* the allocation that the receive buffer is in */
    uint64_t gone;       /* bit mask of this rank's slots: memory that it has freed */
    dma_shape_t shape;   /* of the blocks of the receive buffer */
} dma_record_t;

_Static_assert(sizeof(dma_record_t) <= DMA_RECORD_BYTES(0), "the table has a place of its own");

static inline dma_brief_t *dma_device_brief(const dma_comm_t *comm, int rank, uint64_t seq)
{
    return (dma_brief_t *)dma_window_desc(&comm->window, rank, seq)->line;
}

typedef struct dma_record_block {
    int64_t displ;
    uint64_t bytes;
} dma_record_block_t;

typedef enum dma_device_phase {
    DEVICE_MEET,    /* entered; descriptors of others are missing */
    DEVICE_AGREE,   /* has said how opening went; others have not */
    DEVICE_READY,   /* frozen: has started; others have not */
    DEVICE_SUBMIT,  /* the plan is being given to the engine */
    DEVICE_RUN,     /* it runs; the cluster plan, of a relayed call */
    DEVICE_ON_HOST, /* the host plan runs, or messages do, on host memory */
} dma_device_phase_t;

/* What a task with device memory has beside others. */
struct dma_device_call {
    const dma_gpu_runtime_t *rt;
    dma_device_phase_t phase;
    int device;
    bool served;            /* an engine could; else staged from the start, or relayed */
    bool relayed;           /* over several nodes: used where it is, between nodes through the slots of a relay */
    bool send_on, recv_on;  /* these sides of a relayed call are on the device */
    dma_gpu_memory_t recv;  /* the receive buffer */
    dma_shape_t send_shape; /* of the user's blocks, */
    dma_shape_t recv_shape; /* if an engine could have served them */
    dma_blocks_t home_send; /* the user's sides, while staging stands in for them */
    dma_blocks_t home_recv;
    dma_blocks_t user_recv; /* the user's, while memory of ours stands in for it; */
    dma_blocks_t packed_recv;
    dma_shape_t user_shape; /* row 0: it does not */
    int64_t *packed_displs; /* of those blocks: n to send, n to receive */
    char *staging;
    int64_t *displs; /* of staged blocks: n to send, n to receive */
    bool frozen;     /* the communicator's: see dma_device_persistent_init */
};

typedef struct dma_device_peer {
    dma_import_t *open[DEVICE_SLOTS]; /* NULL: could not be opened, or ours */
    uint64_t number[DEVICE_SLOTS];
    uint64_t size[DEVICE_SLOTS];
    unsigned next;
} dma_device_peer_t;

typedef struct dma_device_plan {
    struct dma_device_plan *next;
    dma_coll_t coll;
    bool in_place;
    dma_choice_t choice;
    dma_plan_t *plan;
} dma_device_plan_t;

typedef struct dma_device_memo {
    dma_coll_t coll;
    bool in_place;
    uint64_t bytes;
    dma_choice_t choice;
} dma_device_memo_t;

#define DEVICE_MEMO 8

/* What calls that come again have in common, if all blocks are equal and their bytes side by side. Without holes, to be
 * compared as a whole. */
typedef struct dma_device_likeness {
    uint64_t coll, in_place;
    const char *send, *recv;
    uint64_t bytes;                 /* of a block that is sent, */
    uint64_t base, size, buffer_id; /* and the allocation that is received in */
} dma_device_likeness_t;
_Static_assert(sizeof(dma_device_likeness_t) == 8 * sizeof(uint64_t), "it has no holes");

typedef struct dma_device_last {
    bool served; /* by the engine, and no other call has been since */
    dma_device_likeness_t like;
    dma_brief_t brief;
    const dma_plan_t *plan;
} dma_device_last_t;

/* What a communicator has beside others once it has seen device memory. */
struct dma_device_comm {
    struct dma_device *device; /* of the process */
    bool off;                  /* staged for good */
    bool all_can;              /* this call's shapes: all ranks' engines */
    struct dma_bound *bound;
    bool pinned;        /* our arena is shown to the device */
    uint32_t meetings;  /* that wanted a verdict */
    uint32_t epoch;     /* GPU plans that have run or run */
    unsigned failures;  /* meetings that have failed since the last that did not */
    uint32_t unsettled; /* bit mask of our own slots: learned in a meeting that has failed */
    dma_device_peer_t *peers;
    dma_gpu_traits_t *traits;
    dma_target_t *targets;
    dma_shape_t *shapes; /* of the targets */
    int64_t *displs;     /* of the targets: n * n */
    dma_device_plan_t *plans;
    dma_device_memo_t memo[DEVICE_MEMO];
    unsigned memo_next;
    dma_device_last_t last;
    const dma_gpu_runtime_t *scratch_of; /* NULL: none of the next three: device_pack.c */
    dma_gpu_stream_t *stream;
    uint64_t scratch, scratch_bytes;

    /* of a channel */
    bool frozen;
    bool frozen_in_place;
    dma_coll_t frozen_coll;
    uint64_t frozen_bytes;
    struct dma_device_call call; /* of all starts */
    dma_run_t run;               /* bound; of all starts but for the epoch */
    uint64_t *ready;             /* by rank: its ready word, as our device sees it */
    unsigned pinned_peers;       /* the arenas of so many ranks are shown to the device for that */
    bool may_arm;
    uint32_t armed; /* the epoch, or 0 */
    double armed_at;
};

/* One device of this process, and the engine that serves it. */
typedef struct dma_device {
    struct dma_device *next;
    int ordinal;
    const dma_gpu_engine_t *engine; /* NULL: none works */
    dma_gpu_unit_t *unit;
    dma_gpu_traits_t traits;
    char why[DMA_WHY_BYTES]; /* none works */
} dma_device_t;

/* device_place.c: before the call is posted. If a side of the call is device memory, task->device is set, and the call is
 * placed; DMA_UNSUPPORTED: it is not, place it as ever. */
dma_status_t dma_device_resolve(dma_comm_t *comm, dma_task_t *task, const dma_call_t *call,
                                const dma_gpu_runtime_t *rt);
/* Could an engine serve the call, as far as this rank sees? Touches no buffer. */
bool dma_device_serves(dma_comm_t *comm, const dma_call_t *call);
/* Host memory in place of the user's, with what is sent. */
dma_status_t dma_device_stage(dma_task_t *task);
/* At the end: what has been received in host memory goes to the user's. */
dma_status_t dma_device_unstage(dma_task_t *task);
void dma_device_drop(dma_task_t *task);
/* The bytes of n blocks, and the same blocks one after the other in `memory`. */
uint64_t dma_blocks_all(const dma_blocks_t *blocks, int n);
dma_blocks_t dma_blocks_packed(const dma_blocks_t *blocks, int n, char *memory, int64_t *displs);
/* Bytes between the user's memory, wherever it is, and ours. */
dma_status_t dma_device_pack(const dma_comm_t *comm, const dma_side_t *side, int block, size_t count, char *to);
dma_status_t dma_device_unpack(const dma_comm_t *comm, const dma_side_t *side, char *block, size_t count,
                               const char *from);

/* Everything between the first and the last byte that the blocks of a side touch. */
typedef struct dma_span {
    char *first;
    uint64_t bytes;
} dma_span_t;
dma_span_t dma_device_span(const dma_side_t *side, int blocks);
dma_gpu_memory_t dma_device_memory(const dma_gpu_runtime_t *rt, const dma_span_t *span);
/* The runtime's own copy: the only way to bytes of device memory. */
dma_status_t dma_device_copy(const dma_gpu_runtime_t *rt, int device, void *to, const void *from, uint64_t bytes);

/* device_shape.c: blocks whose bytes are not side by side, as long as they are rows at regular distances */
/* Makes a side with a shape one that can be used where it is: its address becomes that of its first byte. false: it has
 * none. */
bool dma_device_shape(const dma_comm_t *comm, dma_side_t *side, int blocks, dma_shape_t *shape);
/* Of what is sent. */
const dma_shape_t *dma_device_sent_shape(const struct dma_device_call *d, bool in_place);
/* Is the engine of this rank one that can do the shapes of a call? */
bool dma_device_can(const struct dma_device_comm *dc, const dma_shape_t *send, const dma_shape_t *recv);
/* All records have been learned: are all ranks' engines ones that can do all shapes? Equal on all ranks. */
bool dma_device_all_can(const dma_comm_t *comm, const dma_task_t *task);
/* `bytes` bytes from a block with a shape in device memory to host memory where they are side by side; in scope. */
dma_status_t dma_device_take(const dma_gpu_runtime_t *rt, char *to, const char *block, const dma_shape_t *shape,
                             uint64_t bytes);

/* device_write.c: from host memory to device memory, nothing but the data */
typedef struct dma_writer dma_writer_t;
/* The writer is in scope from here on until the end, which waits for what has been written, and returns `status` or how
 * that went. */
dma_status_t dma_write_begin(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device, dma_writer_t **writer);
dma_status_t dma_write_end(dma_proc_t *proc, dma_writer_t *writer, dma_status_t status);
dma_status_t dma_write_shape(dma_writer_t *writer, const dma_location_t *dst, const dma_location_t *src,
                             uint64_t bytes);
/* Elements of a side at `at`, from where they follow each other packed, or where they lie as they do there. */
dma_status_t dma_write_elements(dma_writer_t *writer, const dma_host_t *host, const dma_side_t *side, char *at,
                                size_t count, const char *from, bool packed);
void dma_writers_destroy(dma_proc_t *proc);

/* device_pack.c */
/* Device memory of ours in place of the user's blocks with a shape, with what is sent. Where that fails, the call is as it
 * was. */
dma_status_t dma_device_pack_shapes(dma_comm_t *comm, dma_task_t *task);
/* At the end: what has been received there goes to the user's. */
dma_status_t dma_device_unpack_shapes(dma_task_t *task);
void dma_device_free_scratch(struct dma_device_comm *dc);

/* device.c: the parts of a task's life. */
dma_status_t dma_device_begin(dma_comm_t *comm, dma_task_t *task);
dma_status_t dma_device_advance(dma_comm_t *comm, dma_task_t *task);
/* The GPU plan for a call whose targets are known; */
dma_status_t dma_device_bind(dma_comm_t *comm, dma_task_t *task);
/* its next run, with the host's program behind its entry: that is over. */
/* The own block before the peers are there, where the engine can. */
void dma_device_early(dma_comm_t *comm, const dma_task_t *task);
void dma_device_go(dma_comm_t *comm, dma_task_t *task, dma_device_phase_t phase);
/* A posted task: for a moment, until its engine has its copies. What is computed behind the call then runs beside them;
 * a rank that comes later than that is served by progress. */
void dma_device_spin(dma_comm_t *comm, const dma_task_t *task);
/* Whom it waits for, or -1. */
int dma_device_holding(const dma_comm_t *comm, const dma_task_t *task);

/* device_comm.c: with the communicator's lock */
/* The communicator's part, made at the first call with device memory; NULL: this rank has no engine for that device. */
struct dma_device_comm *dma_device_comm(dma_comm_t *comm, const dma_gpu_runtime_t *rt, int device);
/* Fills our record. */
dma_status_t dma_device_publish_record(dma_comm_t *comm, dma_task_t *task);
/* Have all ranks told that their calls are as their last? */
bool dma_device_all_repeat(const dma_comm_t *comm, const dma_task_t *task);
/* All have met, and the engine serves the call. */
void dma_device_remember_call(dma_comm_t *comm, const dma_task_t *task);
/* Reads all records; *fresh when any is. On success every target is known. DMA_UNSUPPORTED: not all could be opened. */
dma_status_t dma_device_read_records(dma_comm_t *comm, dma_task_t *task, bool *fresh);
/* A meeting is over: all could, or not. */
void dma_device_count_meeting(dma_comm_t *comm, const dma_task_t *task, bool all);
dma_status_t dma_device_find_plan(dma_comm_t *comm, dma_task_t *task, const dma_plan_t **plan);
/* Nothing of ours moves any more. */
void dma_device_stop(dma_comm_t *comm);
void dma_device_comm_destroy(dma_comm_t *comm);

/* device_freeze.c */
/* Collective on a channel's communicator, and waits: the call meets, if all ranks' buffers are device memory, and its later
 * starts need not. An error is the communicator's. */
dma_status_t dma_device_persistent_init(dma_comm_t *comm, const dma_call_t *call, void *arrays);
/* A start of a frozen call. */
void dma_device_persistent_start(dma_comm_t *comm, dma_task_t *task, void *arrays);
dma_status_t dma_device_begin_persistent(dma_comm_t *comm, dma_task_t *task);
/* Have all ranks started? */
dma_status_t dma_device_all_ready(const dma_comm_t *comm, const dma_task_t *task);
/* The first that has not, or -1. */
int dma_device_not_ready(const dma_comm_t *comm, const dma_task_t *task);
/* Arms the next start, if it may be; */
void dma_device_arm(dma_comm_t *comm);
/* gives up what is armed, */
void dma_device_disarm(dma_comm_t *comm);
/* or if it has been for too long. */
void dma_device_disarm_expired(dma_comm_t *comm);

/* device_proc.c */
/* The process's entry for a device; made on first use. */
dma_device_t *dma_device_of(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device);
void dma_devices_destroy(dma_proc_t *proc);

#endif
