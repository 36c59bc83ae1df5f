/* The fake CUDA: what streams carry out. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake_cuda.h"

/* ---- copies ---- */

enum { WHOLE = 4096 };

/* Longer copies arrive in parts now and then, the last one first. */
static void copy_bytes(char *to, const char *from, size_t bytes)
{
    if (bytes > WHOLE && fake_random(3) == 0) {
        size_t half = 1 + fake_random((unsigned)(bytes < UINT32_MAX ? bytes : UINT32_MAX) - 1);

        copy_bytes(to + half, from + half, bytes - half);
        fake_dawdle();
        bytes = half;
    }
    memcpy(to, from, bytes);
}

/* The copies of a batch arrive in any order. */
static void run_copies(fake_work_t *work)
{
    for (size_t i = work->n; i > 0; i--) {
        fake_piece_t *chosen = &work->pieces[fake_random((unsigned)i)], piece = *chosen;

        *chosen = work->pieces[i - 1];
        copy_bytes(fake_host_address(piece.to), fake_host_address(piece.from), piece.bytes);
        fake_dawdle();
    }
}

/* Only device memory, and memory of the host. The pieces are in place. */
static cuda_error_t submit_copies(fake_stream_t *stream, fake_work_t *work, const char *call)
{
    for (size_t i = 0; i < work->n; i++) {
        const fake_piece_t *p = &work->pieces[i];

        if (p->bytes && (!fake_may_copy(p->to, p->bytes) || !fake_may_copy(p->from, p->bytes))) {
            cuda_error_t error =
                fake_complain(FAKE_INVALID, call, "no such memory", fake_may_copy(p->to, p->bytes) ? p->from : p->to);

            free(work);
            return error;
        }
    }
    return fake_submit(stream, work, call);
}

cuda_error_t cuMemcpyAsync(cuda_addr_t to, cuda_addr_t from, size_t bytes, fake_stream_t *stream)
{
    fake_work_t *work = fake_work_make(run_copies, 1);

    work->pieces[0] = (fake_piece_t){to, from, bytes};
    return submit_copies(stream, work, "cuMemcpyAsync");
}

cuda_error_t cuMemcpyBatchAsync_v2(cuda_addr_t *to, cuda_addr_t *from, size_t *bytes, size_t n,
                                   cuda_batch_attributes_t *attributes, size_t *index, size_t n_attributes,
                                   fake_stream_t *stream)
{
    fake_work_t *work;

    if (!n || n_attributes != 1 || index[0] != 0 || attributes->source_order != CUDA_BATCH_IN_STREAM_ORDER || !stream) {
        return FAKE_INVALID;
    }
    work = fake_work_make(run_copies, n);
    for (size_t i = 0; i < n; i++) {
        work->pieces[i] = (fake_piece_t){to[i], from[i], bytes[i]};
    }
    return submit_copies(stream, work, "cuMemcpyBatchAsync");
}

static uint64_t start_of(cuda_enum_t type, const void *host, uint64_t device, size_t x, size_t y, size_t pitch)
{
    return (type == CUDA_TYPE_HOST ? (uintptr_t)host : device) + y * pitch + x;
}

cuda_error_t cuMemcpy2DAsync_v2(const cuda_copy2d_t *w, fake_stream_t *stream)
{
    uint64_t from = start_of(w->src_type, w->src_host, w->src, w->src_x, w->src_y, w->src_pitch);
    uint64_t to = start_of(w->dst_type, w->dst_host, w->dst, w->dst_x, w->dst_y, w->dst_pitch);
    fake_work_t *work;

    if (w->width > w->src_pitch || w->width > w->dst_pitch) {
        return FAKE_INVALID;
    }
    work = fake_work_make(run_copies, w->height);
    for (size_t i = 0; i < w->height; i++) {
        work->pieces[i] = (fake_piece_t){to + i * w->dst_pitch, from + i * w->src_pitch, w->width};
    }
    return submit_copies(stream, work, "cuMemcpy2DAsync");
}

/* ---- words ---- */

static void run_write(fake_work_t *work)
{
    __atomic_add_fetch(&fake_state.writes, 1, __ATOMIC_RELEASE);
    __atomic_store_n((uint32_t *)work->arg, (uint32_t)work->value, __ATOMIC_RELEASE);
}

enum { AT_LEAST = 0, EQUAL = 1, PATIENCE = 100 };

static bool has_come(const fake_work_t *work)
{
    uint32_t value = __atomic_load_n((uint32_t *)work->arg, __ATOMIC_ACQUIRE);

    return work->flags == AT_LEAST ? (int32_t)(value - (uint32_t)work->value) >= 0 : value == (uint32_t)work->value;
}

static void run_wait(fake_work_t *work)
{
    fake_waiting(work->stream, 1);
    for (int i = 0; !has_come(work) && !fake_stops_waiting(work->stream); i++) {
        if (i < PATIENCE) {
            sched_yield();
        } else {
            usleep(20);
        }
    }
    fake_waiting(work->stream, -1);
}

static cuda_error_t submit_word(fake_stream_t *stream, void (*run)(fake_work_t *), cuda_addr_t word, uint32_t value,
                                unsigned flags, const char *call)
{
    fake_work_t *work;

    if (fake_state.refused == 1) {
        return CUDA_NOT_SUPPORTED;
    }
    if (flags > EQUAL) {
        return FAKE_INVALID;
    }
    if (!fake_may_signal(word)) {
        return fake_complain(FAKE_INVALID, call, "neither device memory nor registered", word);
    }
    work = fake_work_make(run, 0);
    work->arg = fake_host_address(word);
    work->value = value;
    work->flags = flags;
    return fake_submit(stream, work, call);
}

cuda_error_t cuStreamWriteValue32_v2(fake_stream_t *stream, cuda_addr_t word, uint32_t value, unsigned flags)
{
    return submit_word(stream, run_write, word, value, flags, "cuStreamWriteValue32");
}

cuda_error_t cuStreamWaitValue32_v2(fake_stream_t *stream, cuda_addr_t word, uint32_t value, unsigned flags)
{
    return submit_word(stream, run_wait, word, value, flags, "cuStreamWaitValue32");
}

/* Nothing is submitted if one of the operations is wrong. */
cuda_error_t cuStreamBatchMemOp_v2(fake_stream_t *stream, unsigned n, cuda_word_t *words, unsigned flags)
{
    cuda_error_t error = n && n <= 256 && !flags ? CUDA_DONE : FAKE_INVALID;

    for (unsigned i = 0; i < n && !error; i++) {
        const cuda_word_operation_t *w = &words[i].what;

        error = (w->code != CUDA_WORD_WAIT && w->code != CUDA_WORD_WRITE) || w->flags > EQUAL ? FAKE_INVALID
                : !fake_may_signal(w->addr)
                    ? fake_complain(FAKE_INVALID, "cuStreamBatchMemOp", "neither device memory nor registered", w->addr)
                    : CUDA_DONE;
    }
    for (unsigned i = 0; i < n && !error; i++) {
        const cuda_word_operation_t *w = &words[i].what;

        error = submit_word(stream, w->code == CUDA_WORD_WAIT ? run_wait : run_write, w->addr, (uint32_t)w->value,
                            w->flags, "cuStreamBatchMemOp");
    }
    return error;
}

/* ---- events: `recorded` counts the calls, `reached` those that a stream has come to. Never freed ---- */

typedef struct CUevent_st {
    uint64_t recorded, reached, at;
    unsigned flags;
    bool destroyed;
} fake_event_t;

cuda_error_t cuEventCreate(fake_event_t **event, unsigned flags)
{
    cuda_error_t error;
    int device;

    if ((error = fake_enter(&device)) != CUDA_DONE) {
        return error;
    }
    *event = calloc(1, sizeof(**event));
    if (*event) {
        (*event)->flags = flags;
    }
    return *event ? CUDA_DONE : CUDA_OUT_OF_MEMORY;
}

static cuda_error_t check_event(const fake_event_t *event, const char *call)
{
    cuda_error_t error;
    int device;

    if ((error = fake_enter(&device)) != CUDA_DONE) {
        return error;
    }
    return !event || event->destroyed
               ? fake_complain(FAKE_BAD_HANDLE, call, "the event has been destroyed", (uintptr_t)event)
               : CUDA_DONE;
}

cuda_error_t cuEventDestroy_v2(fake_event_t *event)
{
    cuda_error_t error = check_event(event, "cuEventDestroy");

    if (!error) {
        event->destroyed = true;
    }
    return error;
}

static uint64_t reached(const fake_event_t *event)
{
    return __atomic_load_n(&event->reached, __ATOMIC_ACQUIRE);
}

static void run_reach(fake_work_t *work)
{
    fake_event_t *event = work->arg;

    event->at = fake_nanoseconds();
    __atomic_store_n(&event->reached, work->value, __ATOMIC_RELEASE);
}

static void wait_for_event(const fake_event_t *event, uint64_t number)
{
    while (reached(event) < number) {
        usleep(20);
    }
}

static void run_wait_event(fake_work_t *work)
{
    wait_for_event(work->arg, work->value);
}

static cuda_error_t submit_event(fake_stream_t *stream, void (*run)(fake_work_t *), fake_event_t *event,
                                 const char *call)
{
    fake_work_t *work = fake_work_make(run, 0);

    work->arg = event;
    work->value = event->recorded;
    return fake_submit(stream, work, call);
}

cuda_error_t cuEventRecord(fake_event_t *event, fake_stream_t *stream)
{
    cuda_error_t error = check_event(event, "cuEventRecord");

    if (error) {
        return error;
    }
    event->recorded++;
    return submit_event(stream, run_reach, event, "cuEventRecord");
}

cuda_error_t cuStreamWaitEvent(fake_stream_t *stream, fake_event_t *event, unsigned flags)
{
    cuda_error_t error = check_event(event, "cuStreamWaitEvent");

    return error                  ? error
           : flags                ? FAKE_INVALID
           : fake_state.unordered ? CUDA_DONE
                                  : submit_event(stream, run_wait_event, event, "cuStreamWaitEvent");
}

cuda_error_t cuEventQuery(fake_event_t *event)
{
    cuda_error_t error = check_event(event, "cuEventQuery");

    return error ? error : reached(event) < event->recorded ? CUDA_NOT_READY : CUDA_DONE;
}

cuda_error_t cuEventSynchronize(fake_event_t *event)
{
    cuda_error_t error = check_event(event, "cuEventSynchronize");

    if (!error) {
        wait_for_event(event, event->recorded);
    }
    return error;
}

cuda_error_t cuEventElapsedTime(float *ms, fake_event_t *from, fake_event_t *to)
{
    cuda_error_t error = cuEventQuery(from);

    error = error ? error : cuEventQuery(to);
    if (error) {
        return error;
    }
    if (!from->recorded || !to->recorded || (from->flags | to->flags) & CUDA_EVENT_DISABLE_TIMING) {
        return FAKE_BAD_HANDLE;
    }
    *ms = (float)((double)((int64_t)(to->at - from->at)) / 1e6);
    return CUDA_DONE;
}

cuda_error_t cuEventElapsedTime_v2(float *ms, fake_event_t *from, fake_event_t *to)
{
    return cuEventElapsedTime(ms, from, to);
}

/* ---- functions of the host ---- */

static void run_function(fake_work_t *work)
{
    work->function(work->arg);
}

cuda_error_t cuLaunchHostFunc(fake_stream_t *stream, void (*function)(void *arg), void *arg)
{
    fake_work_t *work = fake_work_make(run_function, 0);

    work->function = function;
    work->arg = arg;
    return fake_submit(stream, work, "cuLaunchHostFunc");
}
