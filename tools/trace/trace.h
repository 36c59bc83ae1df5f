/*
 * coll_dma_trace: reads the files that the processes of a job have written with coll_dma_trace set (trace/file.h).
 *
 *     read.c       the files
 *     calls.c      their communicators and calls
 *     messages.c   pairs of sends and receives; from them, how far the clocks of hosts are apart
 *     engine.c     how the clock of an engine is related to that of its host
 *     phases.c     the phases of each call, and their table
 *     ranks.c      the ranks side by side
 *     chrome.c     all events for Perfetto and chrome://tracing
 *     plot.c       the table as a chart, by gnuplot
 *     main.c       options
 *
 * Times are nanoseconds. A time of a file plus its `offset` is a time of the first file.
 */
#ifndef TOOLS_TRACE_H
#define TOOLS_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "trace/file.h"

#define TRACE_NAME 96
/* Valid times, durations and counts of engines are below this: 9 years. So the sum of a few does not overflow. */
#define TRACE_TIMES (INT64_C(1) << 58)

typedef struct trace_span {
    int64_t first, last; /* last 0: none */
} trace_span_t;

/* The phases of DMA-Latte. `meeting` is the part of `synchronise` in which a rank waits for others to enter. */
typedef struct trace_phases {
    double control, schedule, copy, synchronise, meeting;
} trace_phases_t;

typedef struct trace_call {
    bool ended;
    size_t comm; /* place of its communicator */
    uint8_t coll, status, by;
    char variant[17];
    uint32_t seq;
    uint64_t bytes;
    int64_t begin, end, plan, entered, met; /* 0: not seen */
    trace_span_t submit, cores, net;        /* net: the union of the intervals below, valid only if it has no gap */
    int64_t busy;                           /* of the core, in copies */
    int64_t busy_before_met, moving;        /* moving: time in which messages or steps inside the node were under way */
    int64_t line;                           /* when the last program of this rank was seen to have ended */
    trace_span_t ticks;                     /* by the engine's clock: the first beginning, the last end */
    int64_t early;   /* the same clock: the end of what was given to it before `met`; 0: nothing */
    int64_t told;    /* when the core had read the ticks */
    int64_t reading; /* before the end, for the trace alone; not part of the call */
    bool armed;
    trace_phases_t phases;
} trace_call_t;

typedef struct trace_comm {
    char name[TRACE_NAME];
    uint16_t number; /* in the events */
    int rank, nranks;
    bool inner;
    uint64_t identity;
    trace_call_t *calls; /* calls that have begun, by sequence number; a part of the file's */
    size_t ncalls;
} trace_comm_t;

typedef struct trace_file {
    char *path;
    dma_trace_head_t head; /* a copy whose texts end and are printable */
    void *map;
    const dma_trace_event_t *events;
    size_t n, bytes;     /* events; bytes that are mapped */
    trace_comm_t *comms; /* by number */
    size_t ncomms;
    trace_call_t *calls; /* of all communicators */
    int64_t offset;
    bool has_ticks; /* the next three are set: a time is tick_zero + tick_ns * ticks */
    double tick_ns, tick_zero;
    double tick_error; /* ns: tick_zero is known to this */
} trace_file_t;

typedef struct trace_set {
    trace_file_t *files; /* by job and rank */
    size_t n;
} trace_set_t;

/* read.c. Errors are printed. */
bool trace_read(trace_set_t *set, char **dirs, int ndirs);
void trace_free(trace_set_t *set);
/* Replaces what is not printable, quotes and backslashes. Nothing in a file may be a command for a terminal or for
 * gnuplot. */
void trace_clean_text(char *text);

/*
 * calls.c. The number of events in the file bounds what is allocated, whatever is in them. Returns NULL, or why the file
 * cannot be used.
 */
const char *trace_find_calls(trace_file_t *file);
/* The communicator with this number, or NULL. */
trace_comm_t *trace_comm_of(const trace_file_t *file, uint16_t number);
/* The call of an event. NULL: the event is about none, or about one whose beginning or end is missing. */
trace_call_t *trace_call_of(const trace_file_t *file, const dma_trace_event_t *event);
/* The time of an event, or another time of the same file, in the clock of the first file. */
static inline int64_t trace_time(const trace_file_t *file, uint64_t at)
{
    return (int64_t)at + file->offset;
}

/* messages.c */
typedef struct trace_message {
    uint64_t identity; /* of the communicator */
    int from, to;
    size_t file;
    const dma_trace_event_t *event;
    int64_t sent; /* of a receive: when the sender posted the message; INT64_MIN: not known */
} trace_message_t;

typedef struct trace_messages {
    trace_message_t *sends, *recvs; /* the k-th messages of a pair of ranks belong together */
    size_t nsends, nrecvs;
} trace_messages_t;

bool trace_match(const trace_set_t *set, trace_messages_t *messages);
void trace_messages_free(trace_messages_t *messages);
/* Sets the offsets of all files; prints how well the clocks of hosts are known. */
void trace_set_offsets(trace_set_t *set, trace_messages_t *messages);

/* engine.c */
void trace_relate_ticks(trace_file_t *file);
static inline int64_t trace_tick_time(const trace_file_t *file, uint64_t ticks)
{
    return (int64_t)(file->tick_zero + file->tick_ns * (double)ticks);
}

/* phases.c */
typedef struct trace_row {
    uint8_t coll, by;
    char variant[17];
    uint64_t bytes;
    int nranks;
    size_t calls, counted; /* counted: if an engine has told times of some, these alone are */
    double time;           /* mean over the middle half of the calls, as the next ones; microseconds */
    trace_phases_t phases;
} trace_row_t;

typedef struct trace_table {
    trace_row_t *rows;
    size_t n;
    size_t failed, open; /* calls that failed; calls that did not end */
    double worst;        /* largest difference between the sum of a row's phases and its time, as a part of the time */
} trace_table_t;

void trace_compute_phases(trace_set_t *set, const trace_messages_t *messages);
bool trace_make_table(const trace_set_t *set, trace_table_t *table);
void trace_print_table(const trace_set_t *set, const trace_table_t *table);
void trace_print_json(const trace_set_t *set, const trace_table_t *table);
/* Has the engine told when it copied? Not all calls of the engine stream have such times. */
static inline bool trace_has_times(const trace_file_t *file, const trace_call_t *call)
{
    return call->by == DMA_TRACE_GPU_ENGINE && file->has_ticks && call->ticks.last;
}
const char *trace_coll_name(uint8_t coll);
const char *trace_by_name(uint8_t by);

/* ranks.c: a rank in its calls, in microseconds; by file */
typedef struct trace_rank {
    size_t calls, last, late; /* `last`: it was the last one to enter; `late`: so much that it counts */
    double waited, latest;    /* how long others have waited for it to enter: in all, at most */
    double schedule, copy;
    size_t messages, slow;
    double transit, worst;
    int worst_from;
} trace_rank_t;

/* Also when it fails, the caller frees *ranks. */
bool trace_find_ranks(const trace_set_t *set, const trace_messages_t *messages, trace_rank_t **ranks);
void trace_print_ranks(const trace_set_t *set, const trace_rank_t *ranks);

/* chrome.c and plot.c: false: an error has been printed */
bool trace_write_chrome(const trace_set_t *set, const char *path);
bool trace_write_plot(const trace_table_t *table, const char *path);

#endif
