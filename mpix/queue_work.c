/* What the agent does for queues; see queue.h. */
#include "queue.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "parted.h"

enum { LOOK_AT_STREAM_NS = 100 * 1000 * 1000, WATCH_NS = 5 * 1000 * 1000 };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t done; /* a queue has no operations left, or is not busy */
    MPIX_Queue first;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER, .done = PTHREAD_COND_INITIALIZER};

static void finish(MPIX_Queue queue, mpix_operation_t *operation)
{
    free(operation);
    pthread_mutex_lock(&all.lock);
    if (--queue->unfinished == 0) {
        pthread_cond_broadcast(&all.done);
    }
    pthread_mutex_unlock(&all.lock);
}

/* Keeps an error until somebody asks. */
static void keep_error(MPIX_Queue queue, int code)
{
    int class = MPI_ERR_OTHER;

    if (code != MPI_SUCCESS) {
        MPI_Error_class(code, &class);
        pthread_mutex_lock(&all.lock);
        queue->error = queue->error == MPI_SUCCESS ? class : queue->error;
        pthread_mutex_unlock(&all.lock);
    }
}

static bool is_broken(MPIX_Queue queue)
{
    return __atomic_load_n(&queue->broken, __ATOMIC_RELAXED);
}

/* A request whose start fails counts as complete, so that the queue does not wait for it. */
static void start(MPIX_Queue queue, mpix_operation_t *operation)
{
    for (int i = 0; i < operation->count; i++) {
        int code = MPI_Start(&operation->requests[i]);

        if (code != MPI_SUCCESS) {
            keep_error(queue, code);
            operation->requests[i] = MPI_REQUEST_NULL;
            operation->left--;
        }
    }
}

/* MPI_Test leaves the handle of a persistent request as it is, also with an error. If the stream has failed, its kernels make no more
 * partitions ready. */
static bool test(MPIX_Queue queue, mpix_operation_t *operation)
{
    int was = operation->left;

    for (int i = 0; i < operation->count; i++) {
        MPI_Request request = operation->requests[i];
        int flag = 0, code;

        if (request == MPI_REQUEST_NULL) {
            continue;
        }
        code = MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        keep_error(queue, code);
        if (flag) {
            keep_error(queue, mpix_parted_take_error(request));
        } else if (is_broken(queue)) {
            mpix_parted_give_up(request);
        }
        if (flag || code != MPI_SUCCESS) {
            operation->requests[i] = MPI_REQUEST_NULL;
            operation->left--;
        }
    }
    return operation->left < was;
}

static bool test_active(MPIX_Queue queue)
{
    mpix_operation_t **at = &queue->active, *operation;
    bool moved = false;

    while ((operation = *at)) {
        moved |= test(queue, operation);
        if (operation->left > 0) {
            at = &operation->next;
        } else {
            *at = operation->next;
            finish(queue, operation);
        }
    }
    return moved;
}

static bool can_begin(MPIX_Queue queue, const mpix_operation_t *operation)
{
    if (operation->kind == MPIX_WAITALL) {
        return !queue->active;
    }
    return !queue->stream.words || mpix_stream_has_reached(&queue->stream, operation->number) || is_broken(queue);
}

/* Removes the first operation from the list and returns it, if it can be carried out now. */
static mpix_operation_t *take(MPIX_Queue queue)
{
    mpix_operation_t *first;

    pthread_mutex_lock(&all.lock);
    first = queue->head;
    if (first && !can_begin(queue, first)) {
        first = NULL;
    } else if (first && !(queue->head = first->next)) {
        queue->tail = &queue->head;
    }
    pthread_mutex_unlock(&all.lock);
    return first;
}

/* True: there was progress. */
static bool advance(MPIX_Queue queue)
{
    mpix_operation_t *operation;
    bool moved = test_active(queue);

    while ((operation = take(queue))) {
        moved = true;
        if (operation->kind == MPIX_START) {
            start(queue, operation);
            operation->next = queue->active;
            queue->active = operation;
            (void)test_active(queue);
        } else {
            if (queue->stream.words) {
                mpix_stream_release(&queue->stream, operation->number);
            }
            finish(queue, operation);
        }
    }
    return moved;
}

static bool is_watched(void)
{
    bool watched = false;

    for (MPIX_Queue queue = all.first; queue; queue = queue->next) {
        watched |= queue->watched;
    }
    return watched;
}

/* Makes progress of MPI every WATCH_NS. Of the library's thread. */
static void watch(void)
{
    static struct timespec last;
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    if ((now.tv_sec - last.tv_sec) * 1000000000 + now.tv_nsec - last.tv_nsec >= WATCH_NS) {
        last = now;
        mpix_in_stream_watch();
    }
}

/* A queue that is `busy` stays in the list. */
static bool turn(bool is_thread)
{
    bool moved = false, watched;
    MPIX_Queue next;

    pthread_mutex_lock(&all.lock);
    watched = is_thread && is_watched();
    for (MPIX_Queue queue = all.first; queue; queue = next) {
        if (queue->unfinished > 0 && !queue->busy) {
            queue->busy = true;
            pthread_mutex_unlock(&all.lock);
            if (is_thread) {
                mpix_stream_enter(&queue->stream);
            }
            moved |= advance(queue);
            pthread_mutex_lock(&all.lock);
            queue->busy = false;
            if (queue->leaving) {
                pthread_cond_broadcast(&all.done);
            }
        }
        next = queue->next;
    }
    pthread_mutex_unlock(&all.lock);
    if (watched) {
        watch();
    }
    return moved;
}

static mpix_need_t need(void)
{
    mpix_need_t most = MPIX_NEEDS_NOTHING;

    pthread_mutex_lock(&all.lock);
    for (MPIX_Queue queue = all.first; queue && most < MPIX_NEEDS_TURNS; queue = queue->next) {
        most = queue->unfinished > 0 ? MPIX_NEEDS_TURNS : queue->watched ? MPIX_NEEDS_LOOKS : most;
    }
    pthread_mutex_unlock(&all.lock);
    return most;
}

/* Carries out what is left in queues, without partitions that nobody makes ready. */
static void stop(void)
{
    mpix_parted_give_up_all();
    for (MPIX_Queue queue = all.first; queue; queue = queue->next) {
        mpix_queue_complete(queue, true);
        mpix_in_stream_close(&queue->in_stream);
    }
}

static void end(void)
{
}

int mpix_queues_begin(void)
{
    static mpix_work_t work = {.turn = turn, .need = need, .stop = stop, .end = end};

    return mpix_agent_begin(&work);
}

void mpix_queues_add(MPIX_Queue queue)
{
    pthread_mutex_lock(&all.lock);
    queue->next = all.first;
    all.first = queue;
    pthread_mutex_unlock(&all.lock);
}

void mpix_queues_remove(MPIX_Queue queue)
{
    MPIX_Queue *at = &all.first;

    pthread_mutex_lock(&all.lock);
    queue->leaving = true;
    while (queue->busy) {
        pthread_cond_wait(&all.done, &all.lock);
    }
    while (*at != queue) {
        at = &(*at)->next;
    }
    *at = queue->next;
    pthread_mutex_unlock(&all.lock);
}

void mpix_queue_append(MPIX_Queue queue, mpix_operation_t *operation)
{
    operation->next = NULL;
    pthread_mutex_lock(&all.lock);
    *queue->tail = operation;
    queue->tail = &operation->next;
    queue->unfinished++;
    pthread_mutex_unlock(&all.lock);
    mpix_agent_notify();
}

void mpix_queue_watch(MPIX_Queue queue)
{
    bool was = queue->watched;

    pthread_mutex_lock(&all.lock);
    queue->watched = queue->in_stream.all.n > 0;
    pthread_mutex_unlock(&all.lock);
    if (queue->watched && !was) {
        mpix_agent_notify();
    }
}

/* A stream that has failed reaches no start any more. Starts are then made without it, because other ranks wait for them. */
static void look_at_stream(MPIX_Queue queue)
{
    if (queue->stream.words && !is_broken(queue) && mpix_stream_progress(&queue->stream) == MPIX_STREAM_FAILED) {
        keep_error(queue, MPI_ERR_OTHER);
        __atomic_store_n(&queue->broken, true, __ATOMIC_RELAXED);
    }
}

static struct timespec next_look(void)
{
    struct timespec at;

    clock_gettime(CLOCK_REALTIME, &at);
    at.tv_nsec += LOOK_AT_STREAM_NS;
    at.tv_sec += at.tv_nsec / 1000000000;
    at.tv_nsec %= 1000000000;
    return at;
}

void mpix_queue_drain(MPIX_Queue queue)
{
    struct timespec look = next_look();

    pthread_mutex_lock(&all.lock);
    while (queue->unfinished > 0) {
        if (!mpix_agent_has_thread()) {
            pthread_mutex_unlock(&all.lock);
            if (!mpix_agent_turn()) {
                sched_yield();
            }
            pthread_mutex_lock(&all.lock);
        } else if (pthread_cond_timedwait(&all.done, &all.lock, &look) == ETIMEDOUT) {
            pthread_mutex_unlock(&all.lock);
            look_at_stream(queue);
            look = next_look();
            pthread_mutex_lock(&all.lock);
        }
    }
    pthread_mutex_unlock(&all.lock);
}

void mpix_queue_complete(MPIX_Queue queue, bool gone)
{
    uint64_t number;

    pthread_mutex_lock(&queue->order);
    keep_error(queue, mpix_in_stream_finish(&queue->in_stream, &queue->stream, gone));
    mpix_queue_watch(queue);
    number = queue->number;
    pthread_mutex_unlock(&queue->order);
    mpix_queue_drain(queue);
    pthread_mutex_lock(&queue->order);
    if (queue->number == number && queue->in_stream.all.n == 0) { /* no other thread has enqueued meanwhile */
        queue->since.n = 0;
        queue->listed = false;
        queue->in_stream.left.n = 0;
    }
    pthread_mutex_unlock(&queue->order);
}

int mpix_queue_take_error(MPIX_Queue queue)
{
    int error;

    pthread_mutex_lock(&all.lock);
    error = queue->error;
    queue->error = MPI_SUCCESS;
    pthread_mutex_unlock(&all.lock);
    return error;
}
