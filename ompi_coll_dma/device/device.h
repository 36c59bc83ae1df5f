/*
 * The device route: calls whose buffers are device memory, on one node.
 *
 * The life of a call:
 *
 *     resolve.c       before the call is posted: the facts. What are the buffers, and could an engine of this rank serve the call?
 *     join.c          the same for host memory, if other ranks may have device memory
 *     call.c          enter: make ready and publish what the facts allow, read what all ranks have published, agree
 *     decide.c        what a rank offers, and how all ranks carry the call out: the only file that decides
 *     comm.c, votes.c what ranks publish and read
 *
 *     run.c           runs the GPU plan on engines, or the host plan
 *     pieces.c        runs the GPU plan piece by piece, for calls that are larger than the memory of ours
 *     by_slots.c      moves the data through pinned memory that the ranks share, where engines cannot
 *     pipeline.c      the order of copies, votes and runs of both
 *
 *     scratch.c       device memory of ours (lease.h) in place of blocks that engines cannot use where they are
 *     stage.c         host memory in place of device memory, for the host plan
 *     host_copies.c   copies between device memory and host memory, contiguous or packed
 *     slot_copies.c   copies pieces of blocks into and out of shared pinned memory
 *     gather.c        the same by the processor, for short rows that are sent
 *     copies.c        copies between the user's blocks and device memory of ours
 *     rows.c          where the bytes of blocks are, as rectangles: for all copies of blocks
 *
 *     submitter.c     the thread that starts the copies when a late rank has come, while the application computes
 *     persistent.c    a persistent call: all of it once in *_init, except the run
 *     starts.c        the protocol of its starts, for all ways to start
 *     parts.c         what a persistent call with partitions needs in addition
 *     in_stream.c     starts of a persistent call in a stream of the application
 *
 * Only the rank itself knows what its buffers are. So no data moves before all ranks have entered the call. A rank
 * whose buffers its engine could serve enters with DMA_SIGN_DEVICE in its descriptor, without data, and publishes where
 * its receive buffer is. All other ranks enter as for a call in host memory. Every rank reads all descriptors, so all
 * ranks decide alike (decide.h). A rank with host memory does nothing for this: the descriptor of a DEVICE rank says that the data
 * come with a second entry. If it expects device memory on other ranks, its large calls join theirs by slots (join.h). A call that
 * no engine and no slots could serve is staged by its own rank before it enters; no other rank has to know.
 *
 * Agreement. Each rank publishes in its agreed line a vote: the number of the agreement, and yes or no. A rank that has
 * all votes knows the result. Agreements about slots have a word of their own in that line.
 *
 * Exports. An export is the IPC handle of one allocation, with a number. Each rank keeps, for every rank including
 * itself, a list of that rank's last DEVICE_SLOTS exports, and adds to it in the same calls as all other ranks. So a
 * rank's own list equals the lists that its peers have of it, and all of them replace the same entry in the same call.
 * A rank publishes the whole export (DMA_DEVICE_INFO_NEW) if its number is not in the list, or if the agreement on it failed:
 * then the peers open it again. While buffers are used again, no rank waits for a peer to open memory. Memory that a
 * peer has open stays allocated after its owner has freed it. So with a new export a rank also publishes which of its
 * slots hold freed memory, and the sum of bytes in a list is limited.
 *
 * Virtually mapped memory (gpu/mapped.h) is opened by asking its owner for file descriptors, which can fail for reasons that no
 * IPC handle has: the peers do not see the directory of the sockets, or have no file descriptors left. If an agreement fails
 * in which any rank has published such memory, the ranks that have published some use scratch memory in its place from then
 * on, and the failure does not count for the others.
 *
 * Repeated calls. Programs call again and again with the same buffers. A rank whose call equals the last one that the
 * engine has served, with no other record published since, says so (DMA_DEVICE_INFO_REPEAT). If all ranks do, all
 * targets are those of the last call: nothing is looked up, and the engine runs the same programs again.
 *
 * Shapes. Blocks of a vector datatype and the like have a shape (gpu/shape.h). An engine that copies between shapes
 * uses such blocks where they are, and the record says which shape. If the engine of any rank cannot, all ranks see
 * this in the traits, and the host plan runs. A rank whose own engine cannot do it packs inside the device.
 *
 * Persistent calls. All of this is done once, in *_init. The starts need no descriptors: see starts.h.
 *
 * What a rank publishes belongs to its descriptor and is overwritten together with it. So a rank can complete a call
 * and enter the next one while a slower peer still reads the record.
 *
 *     dma_device_info_t      number | offset | largest | piece, flags         32 bytes, in the cache line of the descriptor:
 *                                                                             all that a reader needs if it knows the export
 *     dma_device_record_t    traits | nonce | export | freed                  valid with DMA_DEVICE_INFO_NEW; 256 bytes
 *                            shape                                            valid with DMA_DEVICE_INFO_SHAPE
 *                            slots                                            valid after a vote for a call by slots
 *     dma_device_block_t     displ | bytes, for each block of the receive     valid with DMA_DEVICE_INFO_TABLE; 16 bytes each
 *                            buffer
 */
#ifndef DMA_DEVICE_DEVICE_H
#define DMA_DEVICE_DEVICE_H

#include "core/comm.h"
#include "device/decide.h"
#include "device/gather.h"
#include "device/pins.h"
#include "device/pipeline.h"
#include "device/slots.h"
#include "device/votes.h"
#include "dma/parts.h"
#include "engine/gpu.h"
#include "gpu/ipc.h"

#define DEVICE_SLOTS      64                   /* exports of each peer that a communicator keeps open; bits of a mask */
#define DEVICE_KEPT_BYTES (UINT64_C(16) << 30) /* limit of their sum; one export alone may exceed it */
#define DEVICE_MAX_FAILED 3                    /* failed agreements in a row; then all device memory is staged */

/* After the application has reset the device all calls with it fail. */
typedef struct dma_device {
    struct dma_device *next;
    int ordinal;
    unsigned uses;                  /* communicators; guarded by the process's device lock, like the next */
    bool opening;                   /* a thread tries engines */
    const dma_gpu_engine_t *engine; /* NULL: none works */
    int engine_index;               /* in the list of engines */
    dma_gpu_unit_t *unit;
    dma_gpu_traits_t traits;
    char why[DMA_GPU_WHY_BYTES]; /* why no engine works */
} dma_device_t;

/* ---- types: one call ---- */

typedef enum dma_device_phase {
    DEVICE_ENTER, /* this rank has entered, or started; it waits for the other ranks */
    DEVICE_AGREE, /* this rank has published its vote; it waits for the votes of other ranks */
    DEVICE_RUN,   /* the call has a runner */
} dma_device_phase_t;

/* What carries out a call that the ranks have agreed on. */
typedef struct dma_device_runner {
    const char *name;                                            /* for users */
    bool for_caller;                                             /* the submitter must not advance it */
    dma_status_t (*advance)(dma_comm_t *comm, dma_task_t *task); /* DMA_OK: it is over, or has set another runner */
    void (*end)(dma_comm_t *comm, dma_task_t *task);             /* it is over */
    dma_wait_t (*waits_for)(const dma_comm_t *comm, const dma_task_t *task); /* while the call is under way */
    uint64_t (*position)(const dma_comm_t *comm, const dma_task_t *task);    /* changes while it moves on */
} dma_device_runner_t;

extern const dma_device_runner_t dma_device_by_engine; /* run.c: engines, as a whole */
extern const dma_device_runner_t dma_device_by_stream; /* in_stream.c: a stream of the application has the starts */

/* A stage whose user blocks are device memory (core/staging.h). */
typedef struct dma_device_stage {
    dma_stage_t stage;
    dma_shape_t send_shape, recv_shape;      /* of the blocks that are replaced */
    const dma_side_t *send_type, *recv_type; /* their irregular datatype, or NULL */
    int64_t *displs;                         /* of the packed blocks: n to send, then n to receive */
    dma_lease_t *pins[2]; /* by side, of host memory: the blocks are in it; NULL: in pageable memory */
} dma_device_stage_t;

/* The state of a task with device memory. */
struct dma_device_call {
    const dma_gpu_runtime_t *rt;
    dma_device_phase_t phase;
    const dma_device_runner_t *runner; /* with DEVICE_RUN */
    bool under_way; /* then: no other rank has to come before data moves; the engine has its programs */
    bool staged;    /* host memory stands in for device memory: stage.c */
    int device;
    int home_device;                 /* of the buffers, if `device` is that of their scratch memory */
    bool served;                     /* an engine could carry it out; else it is relayed, or staged from the start */
    dma_reason_t why;                /* it is staged from the start */
    bool rows;                       /* none could, because of the datatypes; slots can */
    bool relayed;                    /* the route of the communicator uses device memory where it is */
    dma_reason_t slots_why;          /* it has published SLOTS, or goes by slots, for this reason; NONE: it does not */
    bool send_on, recv_on;           /* this side is device memory */
    bool joins;                      /* both sides are host memory, and `rt` is NULL: join.h */
    bool by_link;                    /* both sides are pinned or managed memory, which the device copies */
    bool send_scratch, recv_scratch; /* the engines cannot use this side where it is: scratch.c */
    bool brief;                      /* they could use the receive side, but it is likely to be freed soon */
    dma_lease_t *memory;             /* that the call has borrowed; NULL: none */
    uint64_t piece;                  /* most bytes of a block for which `memory` has room; 0: for all of them */
    bool piece_send, piece_recv;     /* then: this side is replaced */
    dma_status_t failed;             /* not DMA_OK: the submitter has found this error */
    bool prepares;         /* the call of *_init: it ends when the ranks have decided how its starts are carried out */
    bool persistent;       /* a start of a persistent call: this struct belongs to the communicator */
    dma_gpu_memory_t recv; /* the receive buffer */
    dma_shape_t send_shape, recv_shape; /* of the blocks that the engine would use */
    /* in `sides`: the irregular datatype of the blocks, or NULL. They have no shape then */
    const dma_side_t *send_type, *recv_type;
    dma_side_t sides[2];        /* by dma_side: as the caller has given them */
    dma_device_stage_t host;    /* host memory in place of device memory (stage.c) */
    dma_device_stage_t scratch; /* scratch memory on the device (scratch.c) */
};

/* ---- types: what a rank publishes ---- */

typedef struct dma_device_info {
    uint64_t number;  /* of the export */
    int64_t offset;   /* of the receive buffer in the allocation */
    uint64_t largest; /* bytes of the largest block */
    uint32_t piece;   /* most DEVICE_PIECE_UNITs of each block at once; 0: whole blocks */
    uint32_t flags;   /* DMA_DEVICE_INFO_* */
} dma_device_info_t;

#define DMA_DEVICE_INFO_TABLE  0x1 /* displacements and bytes of all blocks follow the record */
#define DMA_DEVICE_INFO_SHAPE  0x2 /* the blocks have the shape in the record */
#define DMA_DEVICE_INFO_REPEAT 0x4 /* the call equals the last one of this rank, which the engine has served */
#define DMA_DEVICE_INFO_NEW    0x8 /* the record has the export: peers open it */
/* In pieces: what is received goes to scratch memory, where pieces lie as in pieces.c. Else it goes to its place. */
#define DMA_DEVICE_INFO_HALVES 0x10
#define DMA_DEVICE_INFO_MAPPED 0x20 /* with NEW: the export is virtually mapped memory */
/* Engines cannot serve the rank in this call, and it can do the call by slots. There is no export. */
#define DMA_DEVICE_INFO_SLOTS 0x40
/* The rank is in place. In all-gathers others may not be. */
#define DMA_DEVICE_INFO_IN_PLACE 0x80

#define DEVICE_PIECE_UNIT 256 /* bytes; pieces are multiples of it */
/* Bytes of the largest block of a call by slots at least. A copy and the host plan do smaller ones sooner. */
#define DEVICE_SLOTS_FROM (UINT64_C(256) << 10)

_Static_assert(sizeof(dma_device_info_t) <= 32, "it shares a cache line with the header of the descriptor");

typedef struct dma_device_record {
    dma_gpu_traits_t traits;
    uint64_t nonce;      /* of this process as an exporter */
    dma_export_t export; /* the allocation that contains the receive buffer */
    uint64_t freed;      /* bit mask of this rank's slots whose memory it has freed */
    dma_shape_t shape;   /* of the blocks of the receive buffer */
    /* Of the rank's slots: offset in its arena, and bytes. Written before the rank votes for a call by slots. */
    uint64_t slots_at, slots_bytes;
} dma_device_record_t;

typedef struct dma_device_block {
    int64_t displ;
    uint64_t bytes;
} dma_device_block_t;

_Static_assert(sizeof(dma_device_record_t) <= DMA_RECORD_BYTES(0), "the table begins after the record");

static inline dma_device_info_t *dma_device_info(const dma_comm_t *comm, int rank, uint64_t seq)
{
    return (dma_device_info_t *)dma_window_desc(&comm->window, rank, seq)->line;
}

/* ---- types: a communicator ---- */

/* The exports of one rank, by slot. */
typedef struct dma_device_peer {
    dma_import_t *open[DEVICE_SLOTS]; /* NULL: could not be opened, or is this rank's own */
    uint64_t number[DEVICE_SLOTS];    /* of the export; 0: the slot is empty */
    uint64_t size[DEVICE_SLOTS];
    unsigned next; /* slot of the next export, modulo DEVICE_SLOTS */
} dma_device_peer_t;

/* What equal calls have in common. All blocks have one size and are contiguous. Compared with memcmp. */
typedef struct dma_device_call_key {
    uint64_t coll, in_place;
    const char *send, *recv;
    uint64_t bytes;                 /* of a block that is sent */
    uint64_t base, size, buffer_id; /* of the allocation that contains the receive buffer */
} dma_device_call_key_t;
_Static_assert(sizeof(dma_device_call_key_t) == 8 * sizeof(uint64_t), "memcmp must not see padding");

/* A call that goes in pieces: pieces.c. */
typedef struct dma_device_pieces {
    dma_pipe_t pipe;
    uint64_t bytes;          /* of a piece of a block, equal on all ranks */
    dma_blocks_t send, recv; /* of the whole call, where the user has them */
    /* by rank */
    dma_target_t *targets; /* of the whole call */
    bool *halves;          /* the rank has published DMA_DEVICE_INFO_HALVES */
    uint64_t *counts;      /* of the present piece: n to send, then n to receive */
    int64_t *displs;       /* likewise */
    uint64_t *copy_counts; /* of copies of this rank: n */
    int64_t *copy_displs;  /* likewise */
} dma_device_pieces_t;

/* A call by slots: by_slots.c. */
typedef struct dma_device_by_slots {
    dma_lease_t *memory;     /* NULL: the present call does not go by slots */
    int step;                /* what it waits for */
    dma_pipe_t pipe;         /* fills the own slots, and drains those of peers */
    uint64_t largest;        /* bytes of the largest block of all */
    uint64_t bytes;          /* of a piece of a block, equal on all ranks */
    bool gathers;            /* the processor packs what is sent: gather.c */
    dma_gather_t gather;     /* then; else unused */
    dma_lease_t *room;       /* device memory for packed pieces, or NULL */
    uint64_t room_bytes;     /* of it for each direction */
    char **slots;            /* by rank: where its slots are */
    dma_slots_view_t *views; /* by rank; they outlive the call */
} dma_device_by_slots_t;

/* The last call that this rank has published. */
typedef struct dma_device_last {
    bool served; /* the engine has carried it out, and a later call may repeat it */
    dma_device_call_key_t key;
    dma_device_info_t info; /* what a repetition publishes */
    unsigned repeats;       /* counted up to DMA_IPC_BRIEF_CALLS */
    const dma_plan_t *plan;
} dma_device_last_t;

/* The state of a communicator that has seen device memory. */
struct dma_device_comm {
    const dma_gpu_runtime_t *rt;
    struct dma_device *device;  /* NULL: this rank has only joined calls so far; then rt is NULL, too */
    dma_gpu_binding_t *binding; /* the engine's state for this communicator; NULL: not bound */
    dma_reason_t off;           /* no call is served by engines from now on, for this reason; NONE: they are */
    dma_census_t census;        /* of the present call */
    bool arena_registered;      /* the device can access this rank's arena */
    uint32_t epoch;             /* GPU plans that have been started */
    dma_plan_cache_t plans;
    dma_device_last_t last;

    uint32_t agreements[DEVICE_BALLOTS]; /* started so far */
    unsigned failed_agreements;          /* in a row */
    bool mapped_off;      /* peers could not open virtually mapped memory: this rank publishes none any more */
    bool saw_mapped;      /* a new export of the present call is such memory; equal on all ranks */
    uint64_t unconfirmed; /* bit mask of this rank's slots: the agreement on the export failed */

    /* by rank */
    dma_device_peer_t *peers;
    dma_gpu_traits_t *traits;
    dma_target_t *targets; /* receive buffers of the present call */
    dma_shape_t *shapes;   /* of the targets */
    int64_t *displs;       /* of the targets: n for each rank */

    /* submitter.c */
    bool submitted;             /* in the list of the submitter; guarded by the process's submitter_lock */
    dma_comm_t *next_submitted; /* likewise */
    uint64_t predicted_ps;      /* of the plan that was found last, */
    bool prelaunch_wins;        /* and whether that is with armed programs */
    bool by_submitter;          /* the submitter has the lock and moves the oldest call on */
    bool left_to_caller;        /* it must not make the next step */

    dma_device_pieces_t pieces; /* of the present call, if it goes in pieces */
    dma_device_by_slots_t by_slots;

    /* persistent.c, starts.c: a channel */
    bool prepared; /* starts need no descriptors; the next five are set */
    bool start_in_place;
    dma_coll_t start_coll;
    uint64_t start_bytes;
    struct dma_device_call start_call; /* of every start */
    dma_run_t start_run;               /* of every start, except for the epoch */
    bool may_arm;                      /* what this rank has published: its engine accepts programs before a start */
    bool all_may_arm;        /* so do the engines of all ranks, and it takes less time or there is no other way */
    dma_reason_t unarmed;    /* why this rank arms nothing; NONE: it does */
    bool run_is_armed;       /* the last start's programs were */
    uint64_t started_at;     /* for the trace */
    dma_run_parts_t *parts;  /* the call has partitions, which engines wait for; NULL: it has none */
    void *parts_block;       /* then: this rank's words, in its arena, */
    int arenas_mapped;       /* how many arenas the device can access for words of starts; the first ranks', */
    uint64_t *arenas;        /* and where, by rank */
    dma_comm_t *next_failed; /* starts.c */
    struct dma_device_in_stream *in_stream; /* in_stream.c; NULL: no start has been made so */
    uint64_t armed_bytes;
    bool next_is_armed; /* the programs of the next start are */
    double armed_at;    /* since when nothing else is in front of them */
};

/* ---- route.c: what the core knows of this folder ---- */

extern const dma_memory_t dma_device_memory;
extern const dma_route_t dma_route_device;

/* ---- proc.c ---- */

/* The entry of the process for a device; made on first use. */
dma_device_t *dma_device_of(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device);
/* A communicator that got the device from dma_device_of has ended. */
void dma_device_put(dma_proc_t *proc, const dma_gpu_runtime_t *rt, dma_device_t *device);
void dma_devices_destroy(dma_proc_t *proc);

/* ---- trace.c: what the trace of a communicator says of its engine; without a trace nothing is done ---- */

void dma_device_trace_commands(const dma_comm_t *comm, const dma_task_t *task);
/* An idle binding: relates the clock of its engine to that of the host. */
void dma_device_trace_moment(const dma_comm_t *comm);
/* A run has ended. */
void dma_device_trace_stamps(const dma_comm_t *comm, const dma_task_t *task);

/* ---- resolve.c: before the call is posted, without the lock ---- */

/* If a side of the call is device memory, the task gets its device state and is resolved. DMA_UNSUPPORTED: no side is. */
dma_status_t dma_device_resolve(dma_comm_t *comm, dma_task_t *task, const dma_call_t *call,
                                const dma_gpu_runtime_t *rt);
/* Could an engine carry out the call, as far as this rank sees? Accesses no buffer. */
bool dma_device_serves(dma_comm_t *comm, const dma_call_t *call);
/* Frees the device state of a task. */
void dma_device_drop(dma_task_t *task);
/* The memory from the first to the last byte that the blocks of a side touch. */
typedef struct dma_span {
    char *first;
    uint64_t bytes;
} dma_span_t;
dma_span_t dma_device_span(const dma_host_t *host, const dma_side_t *side, int blocks);
/* What memory a side of a call is. Device memory is adopted: the application's copies from and to it are complete. */
dma_gpu_memory_t dma_device_classify(const dma_gpu_runtime_t *rt, const dma_span_t *span);
/* With coll_dma_stream_sync, waits for the default stream of the device. After an error the call must not begin. */
dma_status_t dma_device_sync_stream(const dma_comm_t *comm, const dma_gpu_runtime_t *rt, int device);
/* ---- host_copies.c ---- */

/* Copies with the runtime, because the cores must not access device memory. */
dma_status_t dma_device_copy(const dma_gpu_runtime_t *rt, int device, void *to, const void *from, uint64_t bytes);
/* The same from device memory to pageable memory, and back, through pinned memory if there is some. */
dma_status_t dma_device_read(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device, void *to, const void *from,
                             uint64_t bytes);
dma_status_t dma_device_write(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device, void *to, const void *from,
                              uint64_t bytes);
/* Copies elements of one block between the user's memory and packed bytes in host memory. */
dma_status_t dma_device_pack(const dma_comm_t *comm, const dma_side_t *side, int block, size_t count, char *packed);
dma_status_t dma_device_unpack(const dma_comm_t *comm, const dma_side_t *side, char *at, size_t count,
                               const char *packed);
/* The memory of `count` elements of a side, the first one at `at`. */
dma_span_t dma_device_span_of(const dma_side_t *side, char *at, size_t count);
/* Host memory with the bytes of a span of device memory. */
typedef struct dma_stretch {
    char *memory;
    dma_lease_t *pin; /* NULL: it is pageable */
} dma_stretch_t;
dma_status_t dma_device_read_stretch(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device, const dma_span_t *span,
                                     dma_stretch_t *stretch);
void dma_device_drop_stretch(dma_proc_t *proc, const dma_stretch_t *stretch);

/* ---- shape.c: blocks that consist of rows ---- */

/* The shape of `count` elements of a side that is not dense, and the distance from their address to the first byte. false: they have
 * none. */
bool dma_shape_of_elements(const dma_host_t *host, const dma_side_t *side, uint64_t count, ptrdiff_t *first,
                           dma_shape_t *shape);
/* Makes a side that has a shape usable where it is: its address becomes that of its first byte. false: it has no shape.
 * */
bool dma_device_shape(const dma_comm_t *comm, dma_side_t *side, int blocks, dma_shape_t *shape);
/* The shape of the blocks that are sent; NULL: contiguous. */
const dma_shape_t *dma_device_sent_shape(const struct dma_device_call *d, bool in_place);
/* Can the engine of this rank do the shapes of a call? */
bool dma_device_supports_shapes(const struct dma_device_comm *dc, const dma_shape_t *send, const dma_shape_t *recv);
/* After all records have been read: can the engines of all ranks do all shapes? Equal on all ranks. */
bool dma_device_all_support_shapes(const dma_comm_t *comm, const dma_task_t *task);
/* Are the rows of an irregular datatype so long that the runtime packs them quickly? */
bool dma_device_has_long_rows(const dma_comm_t *comm, const dma_side_t *side);

/* ---- call.c: the life of a call, with the communicator's lock ---- */

dma_status_t dma_device_advance(dma_comm_t *comm, dma_task_t *task);
/* Who runs the call from now on. */
void dma_device_set_runner(dma_task_t *task, const dma_device_runner_t *runner);
/* Ends a call that has not run a plan. */
void dma_device_end_streaming(dma_comm_t *comm, dma_task_t *task);
/* The next step is one that the submitter must not make. false: the caller's thread makes it. */
bool dma_device_is_left_to_caller(dma_comm_t *comm);
/* All ranks have entered, voted or started: wakes the submitters of those that were waiting. */
void dma_device_wake_submitters(const dma_comm_t *comm);
/* After a post: polls for a bounded time until the engine has its copies, which then overlap with what the caller
 * computes. If a peer comes later, the submitter starts the copies. */
void dma_device_spin(dma_comm_t *comm, const dma_task_t *task);
dma_wait_t dma_device_waits_for(const dma_comm_t *comm, const dma_task_t *task);
const char *dma_device_phase(const dma_comm_t *comm, const dma_task_t *task);
uint64_t dma_device_position(const dma_comm_t *comm, const dma_task_t *task);

/* ---- run.c: with the communicator's lock ---- */

/* Lets the engine copy the own block before the peers have entered. */
void dma_device_copy_early(dma_comm_t *comm, const dma_task_t *task);
/* The call is not carried out by engines: what has been prepared for them ends. */
void dma_device_leave_engine(dma_comm_t *comm, dma_task_t *task);
/* Finds and binds the GPU plan for a call whose targets are known, for blocks of at most `bytes` bytes. */
dma_status_t dma_device_bind(dma_comm_t *comm, dma_task_t *task, uint64_t bytes);
/* Begins the next run of the bound plan, and counts it. */
void dma_device_start_run(dma_comm_t *comm, dma_task_t *task);
void dma_device_count_run(dma_comm_t *comm, const dma_task_t *task);
/* Gives the engine the programs, or if it has them already, lets it know of the run. `began`: for the trace. */
dma_status_t dma_device_submit(dma_comm_t *comm, dma_task_t *task, bool armed, uint64_t began);
dma_status_t dma_device_poll_engine(const dma_comm_t *comm, dma_task_t *task);
/* All targets are known, and the engines of all ranks run the call. `repeats`: as they ran the last one. */
dma_status_t dma_device_begin_engine(dma_comm_t *comm, dma_task_t *task, bool repeats);
/* Runs the host plan on staged memory, for this reason. `second_entry`: this rank has entered the call already, without data. */
dma_status_t dma_device_begin_host(dma_comm_t *comm, dma_task_t *task, bool second_entry, dma_reason_t reason);

/* ---- attach.c: with the communicator's lock ---- */

/* The device state of the communicator, made at the first call with device memory. NULL: this rank has no memory for it, and
 * *why says so; or, without a reason, the communicator uses another device. */
struct dma_device_comm *dma_device_comm(dma_comm_t *comm, const dma_gpu_runtime_t *rt, int device, dma_reason_t *why);
/* The same without a device, for calls in host memory. NULL: there is no memory for it. */
struct dma_device_comm *dma_device_comm_of_host(dma_comm_t *comm);
void dma_device_comm_destroy(dma_comm_t *comm);

/* ---- comm.c: with the communicator's lock ---- */

/* Fills this rank's info and record. For a call by slots without an export. */
void dma_device_publish_slots(dma_comm_t *comm, dma_task_t *task);
dma_status_t dma_device_publish_record(dma_comm_t *comm, dma_task_t *task);
/* Keeps a call that the engine serves, so that a later call can repeat it. */
void dma_device_save_call(dma_comm_t *comm, const dma_task_t *task);
/* Reads all records, opens new exports and sets all targets. DMA_UNSUPPORTED: not all memory could be opened. */
dma_status_t dma_device_read_records(dma_comm_t *comm, dma_task_t *task);
/* An agreement has ended. `all`: all ranks have voted yes. */
void dma_device_end_agreement(dma_comm_t *comm, const dma_task_t *task, bool all);
/* Bytes of the largest block that any rank receives. Equal on all ranks. */
uint64_t dma_device_largest_block(const dma_comm_t *comm, const dma_task_t *task);
/* The same of this rank alone. */
uint64_t dma_device_largest_received(const dma_task_t *task);
/* The plan for blocks of at most `bytes` bytes. */
dma_status_t dma_device_find_plan(dma_comm_t *comm, dma_task_t *task, uint64_t bytes, const dma_plan_t **plan);
/* Stops the engine. After this nothing that this rank has started moves data. */
void dma_device_stop(dma_comm_t *comm);
/* Closes all memory of a rank that this one has open. */
void dma_device_close_all(const dma_comm_t *comm, int rank);

/* ---- copies.c: in scope ---- */

/* One side of copies. */
typedef struct dma_device_end {
    const dma_blocks_t *blocks;
    const dma_shape_t *shape; /* of the blocks; may be NULL */
    const dma_side_t *type;   /* irregular; may be NULL */
    uint64_t skip;            /* bytes of each block in front of those that are copied */
} dma_device_end_t;

/* Starts the copies of a range of blocks, except one (-1: none). `sizes`: how many bytes of each. Blocks that follow each
 * other are one copy. */
dma_status_t dma_device_copy_blocks(const dma_comm_t *comm, dma_gpu_stream_t *stream, const dma_device_end_t *to,
                                    const dma_device_end_t *from, const dma_blocks_t *sizes, dma_range_t range,
                                    int except);

/* ---- submitter.c ---- */

/* The process gets device memory. */
void dma_submitter_prepare(dma_proc_t *proc);
/* With the communicator's lock: the submitter moves the oldest call on, if that waits for other ranks. */
void dma_submitter_take(dma_comm_t *comm);
/* With the communicator's lock: it ends. */
void dma_submitter_give_back(dma_comm_t *comm);
void dma_submitter_destroy(dma_proc_t *proc);

/* ---- stage.c ---- */

/* Puts host memory in place of the task's device memory for this reason, and copies what is sent. Only counts if this has been
 * done. */
dma_status_t dma_device_stage(dma_task_t *task, dma_reason_t reason);
/* The call does not need its pinned memory any more. */
void dma_device_put_pins(dma_proc_t *proc, struct dma_device_call *d);
/* Copies block 0 of the send side to block 0 of the receive side. */
dma_status_t dma_device_copy_own(dma_task_t *task);

/* ---- scratch.c ---- */

bool dma_device_needs_scratch(const struct dma_device_comm *dc, const struct dma_device_call *d);
/* If the receive buffer is virtually mapped memory that peers cannot open, or an export of it would tie up too much memory, it
 * needs scratch memory, too. */
void dma_device_check_export(const dma_comm_t *comm, struct dma_device_call *d);
/* Shall scratch memory take what the call receives, because the buffer is likely to be freed soon? `undo`: there is none; false:
 * that was not so. */
void dma_device_check_brief(const dma_comm_t *comm, const dma_task_t *task);
bool dma_device_undo_brief(struct dma_device_call *d);
/* Puts scratch memory in place of the sides that need it, and copies what is sent; or the call has a `piece` now, and nothing
 * is copied yet. After an error the call is unchanged. */
dma_status_t dma_device_use_scratch(dma_comm_t *comm, dma_task_t *task);
/* The call does not need its scratch memory any more. */
void dma_device_put_scratch(dma_proc_t *proc, struct dma_device_call *d, bool failed);

/* ---- pieces.c ---- */

#define DMA_PIECE_HALVES 2 /* of scratch memory in pieces: engines use one while the other is copied */

#define DMA_LEAST_PIECE UINT64_C(4096) /* bytes: smaller ones are slower than the way through the host */

/* The scratch memory for pieces of so many bytes, and the largest pieces for which it has room. */
uint64_t dma_piece_bytes(uint64_t piece, uint64_t blocks);
uint64_t dma_piece_of(uint64_t bytes, uint64_t blocks);
/* All targets are known, and all ranks do the same. */
dma_status_t dma_device_begin_pieces(dma_comm_t *comm, dma_task_t *task, uint64_t piece);
/* The call takes the host plan instead: it is as it was before its scratch memory. */
void dma_device_cancel_pieces(dma_task_t *task);
/* ---- by_slots.c ---- */

/* Can this rank do the call by slots, and is the call large enough for it? */
bool dma_device_can_use_slots(const dma_comm_t *comm, const dma_task_t *task);
/* All ranks do this in the same call: they agree on slots, or else on the host plan. `why`: this rank's reason. */
dma_status_t dma_device_begin_slots(dma_comm_t *comm, dma_task_t *task, dma_reason_t why);
/* Gives the slots back, when their copies have ended. */
void dma_device_end_slots(dma_comm_t *comm);

/* ---- parts.c ---- */

/* Collective and blocking, after the call was prepared on all ranks: where are the words of all ranks, and can all engines wait
 * for them? If so, the next start is armed, and the call is served (dma/parts.h). An error is one of the exchange. */
dma_status_t dma_device_parts_init(dma_comm_t *comm, dma_parts_t *parts);
/* Forgets them; no engine writes to the words any more, or `keep`: one may. */
void dma_device_parts_end(dma_comm_t *comm, bool keep);

/* ---- persistent.c ---- */

/* Collective and blocking. If the buffers of all ranks are device memory, does once what each start would have to do.
 * After an error the communicator has failed. */
dma_status_t dma_device_persistent_init(dma_comm_t *comm, const dma_call_t *call, void *arrays);
/* Of its call: publishes the buffers, or says why engines cannot serve its starts. */
dma_reason_t dma_device_prepare_offer(dma_comm_t *comm, dma_task_t *task);
/* Of its call: the records have been read, with this result. DMA_UNSUPPORTED: the starts are not prepared. */
dma_status_t dma_device_try_to_prepare(dma_comm_t *comm, dma_task_t *task, dma_status_t status);
/* Of its call: all ranks have decided. Keeps what its starts need, or says why there is nothing to keep. */
void dma_device_end_init(dma_comm_t *comm, dma_task_t *task, const dma_decision_t *decision);
/* Makes the task of a start. DMA_UNSUPPORTED: the starts are not prepared, and the call has to be resolved. */
dma_status_t dma_device_persistent_start(dma_comm_t *comm, dma_task_t *task, void *arrays);

#endif
