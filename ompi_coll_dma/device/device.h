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

/* Where a call stands. A phase function that returns DMA_OK and stays in its phase has ended the call. */
typedef enum dma_device_phase {
    DEVICE_ENTER,   /* has entered; descriptors of other ranks are missing */
    DEVICE_AGREE,   /* has published whether it could open all memory; other ranks have not */
    DEVICE_STARTED, /* a persistent call: has started; other ranks have not */
    DEVICE_SUBMIT,  /* the plan is being given to the engine */
    DEVICE_RUN,     /* the engine runs it; or the cluster route has the call */
    DEVICE_ON_HOST, /* the host plan runs, or messages do, on host memory */
} dma_device_phase_t;

/* A stage of blocks in device memory (core/staging.h). */
typedef struct dma_device_stage {
    dma_stage_t stage;
    dma_shape_t send_shape, recv_shape; /* of the blocks that are replaced */
    int64_t *displs;                    /* of packed blocks: n to send, n to receive */
} dma_device_stage_t;

/* What a task with device memory has beside others. */
struct dma_device_call {
    const dma_gpu_runtime_t *rt;
    dma_device_phase_t phase;
    int device;
    bool served;            /* an engine could carry it out; else it is staged from the start, or relayed */
    bool relayed;           /* the route of the communicator uses device memory where it is */
    bool send_on, recv_on;  /* these sides of a relayed call are on the device */
    bool persistent;        /* a start of a persistent call: this struct belongs to the communicator */
    dma_gpu_memory_t recv;  /* the receive buffer */
    dma_shape_t send_shape; /* of the blocks that the engine would use */
    dma_shape_t recv_shape;
    dma_device_stage_t host; /* host memory in place of device memory: stage.c */
    dma_device_stage_t pack; /* memory of ours on the device in place of blocks with a shape: pack.c */
};

typedef struct dma_device_peer {
    dma_import_t *open[DEVICE_SLOTS]; /* NULL: could not be opened, or ours */
    uint64_t number[DEVICE_SLOTS];
    uint64_t size[DEVICE_SLOTS];
    unsigned next;
} dma_device_peer_t;

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
    dma_gpu_binding_t *binding;
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
    dma_plan_cache_t plans;
    dma_device_last_t last;
    const dma_gpu_runtime_t *scratch_of; /* NULL: none of the next three: pack.c */
    dma_gpu_stream_t *stream;
    uint64_t scratch, scratch_bytes;

    /* of a channel */
    bool prepared; /* starts need no descriptors */
    bool init_in_place;
    dma_coll_t init_coll;
    uint64_t init_bytes;
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

/* route.c: the part that the core knows */
extern const dma_memory_t dma_device_memory;
extern const dma_route_t dma_route_device;

/* resolve.c: before the call is posted. If a side of the call is device memory, the task gets its device state and is
 * resolved. DMA_UNSUPPORTED: no side is. */
dma_status_t dma_device_resolve(dma_comm_t *comm, dma_task_t *task, const dma_call_t *call,
                                const dma_gpu_runtime_t *rt);
/* Could an engine carry out the call, as far as this rank sees? Touches no buffer. */
bool dma_device_serves(dma_comm_t *comm, const dma_call_t *call);
/* The task ends. */
void dma_device_drop(dma_task_t *task);
/* Elements of one block between the user's memory and packed bytes in host memory. */
dma_status_t dma_device_pack(const dma_comm_t *comm, const dma_side_t *side, int block, size_t count, char *packed);
dma_status_t dma_device_unpack(const dma_comm_t *comm, const dma_side_t *side, char *at, size_t count,
                               const char *packed);

/* stage.c: host memory in the place of what the task has in device memory, with what is sent. Nothing if it has it already. */
dma_status_t dma_device_stage(dma_task_t *task);
/* Block 0 of the send side goes to block 0 of the receive side. */
dma_status_t dma_device_copy_own(dma_task_t *task);

/* Everything between the first and the last byte that the blocks of a side touch. */
typedef struct dma_span {
    char *first;
    uint64_t bytes;
} dma_span_t;
dma_span_t dma_device_span(const dma_side_t *side, int blocks);
dma_gpu_memory_t dma_device_classify(const dma_gpu_runtime_t *rt, const dma_span_t *span);
/* The runtime's own copy: the only way to bytes of device memory. */
dma_status_t dma_device_copy(const dma_gpu_runtime_t *rt, int device, void *to, const void *from, uint64_t bytes);

/* shape.c: blocks whose bytes are not side by side, as long as they are rows at regular distances */
/* Makes a side with a shape one that can be used where it is: its address becomes that of its first byte. false: it has
 * none. */
bool dma_device_shape(const dma_comm_t *comm, dma_side_t *side, int blocks, dma_shape_t *shape);
/* Of what is sent. */
const dma_shape_t *dma_device_sent_shape(const struct dma_device_call *d, bool in_place);
/* Is the engine of this rank one that can do the shapes of a call? */
bool dma_device_can(const struct dma_device_comm *dc, const dma_shape_t *send, const dma_shape_t *recv);
/* All records have been learned: are all ranks' engines ones that can do all shapes? Equal on all ranks. */
bool dma_device_all_can(const dma_comm_t *comm, const dma_task_t *task);

/* write.c: from host memory to device memory, nothing but the data */
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

/* pack.c */
/* Device memory of ours in place of the user's blocks with a shape, with what is sent. After an error the call is as it was. */
dma_status_t dma_device_pack_shapes(dma_comm_t *comm, dma_task_t *task);
void dma_device_free_scratch(struct dma_device_comm *dc);

/* call.c: the life of a call. With the communicator's lock. */
dma_status_t dma_device_advance(dma_comm_t *comm, dma_task_t *task);
/* Finds and binds the GPU plan for a call whose targets are known. */
dma_status_t dma_device_bind(dma_comm_t *comm, dma_task_t *task);
/* Begins the next run of the bound plan, in a phase: SUBMIT, or a later one if the engine has its programs already. */
void dma_device_start_run(dma_comm_t *comm, dma_task_t *task, dma_device_phase_t phase);
/* The engine may copy the own block before the peers are there. */
void dma_device_start_early(dma_comm_t *comm, const dma_task_t *task);
/* A posted task: waits a moment until the engine has its copies. What is computed after the call then overlaps with them. For
 * a peer that comes later, progress starts the copies. */
void dma_device_spin(dma_comm_t *comm, const dma_task_t *task);
dma_wait_t dma_device_waits_for(const dma_comm_t *comm, const dma_task_t *task);

/* comm.c: with the communicator's lock */
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

/* persistent.c */
/* Collective on a channel's communicator, and waits: the call meets, if all ranks' buffers are device memory, and its later
 * starts need not. An error is the communicator's. */
dma_status_t dma_device_persistent_init(dma_comm_t *comm, const dma_call_t *call, void *arrays);
/* Makes the task of a start. false: the starts are not prepared, resolve the call. */
bool dma_device_persistent_start(dma_comm_t *comm, dma_task_t *task, void *arrays);
dma_status_t dma_device_begin_persistent(dma_comm_t *comm, dma_task_t *task);
/* The first that has not, or -1. */
int dma_device_not_ready(const dma_comm_t *comm, const dma_task_t *task);
/* Arms the next start, if it may be; */
void dma_device_arm(dma_comm_t *comm);
/* gives up what is armed, */
void dma_device_disarm(dma_comm_t *comm);
/* or if it has been for too long. */
void dma_device_disarm_expired(dma_comm_t *comm);

/* proc.c */
/* The process's entry for a device; made on first use. */
dma_device_t *dma_device_of(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device);
void dma_devices_destroy(dma_proc_t *proc);

#endif
