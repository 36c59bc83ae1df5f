/* The agent, which carries out the operations of queues: the library's thread, or callers of the library. See queue.h. */
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "dma/thread.h"
#include "parted.h"
#include "queue.h"

/* The thread yields its core after each turn. After PATIENCE turns without progress it sleeps instead. If it only looks for starts,
 * each sleep is longer than the one before by one part of NAP_PARTS, up to WATCH_NS: so a start is found late by no more than such a
 * part of the time in which nothing has happened. */
enum {
    PATIENCE = 2000,
    WATCH_TURNS = 100,
    NAP_NS = 50 * 1000,
    NAP_PARTS = 64,
    LOOK_AT_STREAM_NS = 100 * 1000 * 1000,
    WATCH_NS = 5 * 1000 * 1000
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t work, done; /* there are operations; a queue has none left, or is not busy */
    pthread_t thread;
    bool begun, has_thread, ending;
    MPIX_Queue queues;
    long unfinished; /* operations of all queues */
    int watched;     /* queues with starts that their streams make */
    bool asleep;     /* atomic: the thread waits for `work`, or looks for the last time before it does */
} agent = {.lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER, .done = PTHREAD_COND_INITIALIZER};

/* ---- one queue ---- */

static void finish(MPIX_Queue queue, mpix_operation_t *operation)
{
    free(operation);
    pthread_mutex_lock(&agent.lock);
    queue->unfinished--;
    agent.unfinished--;
    if (queue->unfinished == 0) {
        pthread_cond_broadcast(&agent.done);
    }
    pthread_mutex_unlock(&agent.lock);
}

void mpix_agent_keep_error(MPIX_Queue queue, int code)
{
    int class = MPI_ERR_OTHER;

    if (code != MPI_SUCCESS) {
        MPI_Error_class(code, &class);
        pthread_mutex_lock(&agent.lock);
        queue->error = queue->error == MPI_SUCCESS ? class : queue->error;
        pthread_mutex_unlock(&agent.lock);
    }
}

/* A request whose start fails counts as complete, so that the queue does not wait for it. */
static void start(MPIX_Queue queue, mpix_operation_t *operation)
{
    for (int i = 0; i < operation->count; i++) {
        int code = MPI_Start(&operation->requests[i]);

        if (code != MPI_SUCCESS) {
            mpix_agent_keep_error(queue, code);
            operation->requests[i] = MPI_REQUEST_NULL;
            operation->left--;
        }
    }
}

/* If the stream has failed, its kernels make no more partitions ready. */
static void give_up_broken(MPIX_Queue queue, MPI_Request request)
{
    bool broken;

    if (!queue->stream.words) {
        return;
    }
    pthread_mutex_lock(&agent.lock);
    broken = queue->broken;
    pthread_mutex_unlock(&agent.lock);
    if (broken) {
        mpix_parted_give_up(request);
    }
}

/* MPI_Test leaves the handle of a persistent request as it is, also with an error. */
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
        mpix_agent_keep_error(queue, code);
        if (!flag) {
            give_up_broken(queue, request);
        } else {
            mpix_agent_keep_error(queue, mpix_parted_take_error(request));
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

static bool can_start(MPIX_Queue queue, const mpix_operation_t *operation)
{
    bool broken;

    if (!queue->stream.words || mpix_stream_has_reached(&queue->stream, operation->number)) {
        return true;
    }
    pthread_mutex_lock(&agent.lock);
    broken = queue->broken;
    pthread_mutex_unlock(&agent.lock);
    return broken;
}

/* Removes the first operation from the list and returns it, if it can be carried out now. */
static mpix_operation_t *take(MPIX_Queue queue)
{
    mpix_operation_t *first;

    pthread_mutex_lock(&agent.lock);
    first = queue->head;
    pthread_mutex_unlock(&agent.lock);
    if (!first || (first->kind == MPIX_START ? !can_start(queue, first) : queue->active != NULL)) {
        return NULL;
    }
    pthread_mutex_lock(&agent.lock);
    queue->head = first->next;
    if (!queue->head) {
        queue->tail = &queue->head;
    }
    pthread_mutex_unlock(&agent.lock);
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

/* ---- all queues ---- */

/* The caller holds the lock, which is released in between. A queue that is `busy` stays in the list. */
static bool turn(bool is_thread)
{
    bool moved = false;
    MPIX_Queue next;

    for (MPIX_Queue queue = agent.queues; queue; queue = next) {
        if (queue->unfinished > 0 && !queue->busy) {
            queue->busy = true;
            pthread_mutex_unlock(&agent.lock);
            if (is_thread) {
                mpix_stream_enter(&queue->stream);
            }
            moved |= advance(queue);
            pthread_mutex_lock(&agent.lock);
            queue->busy = false;
            if (queue->leaving) {
                pthread_cond_broadcast(&agent.done);
            }
        }
        next = queue->next;
    }
    pthread_mutex_unlock(&agent.lock);
    moved |= mpix_parted_turn(is_thread);
    pthread_mutex_lock(&agent.lock);
    return moved;
}

static void set_deadline(struct timespec *deadline, long ns)
{
    clock_gettime(CLOCK_REALTIME, deadline);
    deadline->tv_nsec += ns;
    deadline->tv_sec += deadline->tv_nsec / 1000000000;
    deadline->tv_nsec %= 1000000000;
}

static mpix_need_t need(void)
{
    return agent.unfinished > 0 || agent.ending ? MPIX_NEEDS_TURNS : mpix_parted_need();
}

/* Nothing is left to do, except perhaps to watch, and to look for starts in `ns` if that is not 0. True: somebody has woken the
 * thread. Whoever stores what need() looks at sees `asleep`, or need() sees what they have stored. */
static bool rest(long ns)
{
    struct timespec deadline;
    bool woken = true;

    if (agent.watched > 0) {
        pthread_mutex_unlock(&agent.lock);
        mpix_in_stream_watch();
        ns = ns > 0 ? ns : WATCH_NS;
        pthread_mutex_lock(&agent.lock);
    }
    __atomic_store_n(&agent.asleep, true, __ATOMIC_SEQ_CST);
    if (need() == MPIX_NEEDS_TURNS) {
        /* not yet */
    } else if (ns == 0) {
        pthread_cond_wait(&agent.work, &agent.lock);
    } else {
        set_deadline(&deadline, ns);
        woken = pthread_cond_timedwait(&agent.work, &agent.lock, &deadline) != ETIMEDOUT;
    }
    __atomic_store_n(&agent.asleep, false, __ATOMIC_RELAXED);
    return woken;
}

/* The caller holds the lock, which is released in between. */
static void pause_busy(unsigned idle)
{
    bool watched = agent.watched > 0 && idle % WATCH_TURNS == WATCH_TURNS - 1;

    pthread_mutex_unlock(&agent.lock);
    if (watched) {
        mpix_in_stream_watch();
    }
    if (idle < PATIENCE) {
        sched_yield();
    } else {
        nanosleep(&(struct timespec){0, NAP_NS}, NULL);
    }
    pthread_mutex_lock(&agent.lock);
}

static void *thread_main(void *unused)
{
    long nap = NAP_NS;
    unsigned idle = 0;

    (void)unused;
    pthread_mutex_lock(&agent.lock);
    while (!agent.ending) {
        mpix_need_t now = need();

        if (now == MPIX_NEEDS_NOTHING) {
            (void)rest(0);
            idle = 0;
            continue;
        }
        idle = turn(true) ? 0 : idle + 1;
        if (idle < PATIENCE || now == MPIX_NEEDS_TURNS) {
            nap = NAP_NS;
            pause_busy(idle);
        } else if (rest(now == MPIX_NEEDS_LOOKS ? nap : 0)) {
            idle = 0;
        } else {
            nap += nap < WATCH_NS ? nap / NAP_PARTS : 0;
        }
    }
    pthread_mutex_unlock(&agent.lock);
    return NULL;
}

/* MPI_Finalize first deletes the attributes of MPI_COMM_SELF, and so calls this, which carries out what is left in queues. */
static int end(MPI_Comm comm, int key, void *value, void *state)
{
    (void)comm;
    (void)key;
    (void)value;
    (void)state;
    mpix_parted_give_up_all();
    for (MPIX_Queue queue = agent.queues; queue; queue = queue->next) {
        mpix_queue_complete(queue, true);
        mpix_in_stream_close(&queue->in_stream);
    }
    if (agent.has_thread) {
        pthread_mutex_lock(&agent.lock);
        agent.ending = true;
        pthread_cond_broadcast(&agent.work);
        pthread_mutex_unlock(&agent.lock);
        pthread_join(agent.thread, NULL);
        agent.has_thread = false;
    }
    mpix_parted_end();
    return MPI_SUCCESS;
}

/*
 * In Open MPI 4.1 and 5.0 MPI_T_init_thread changes what MPI_Query_thread says, but not whether Open MPI's locks work. Without them
 * the thread would break the program.
 */
static bool may_have_thread(void)
{
    const bool *locks_work = dlsym(RTLD_DEFAULT, "opal_uses_threads");
    int provided = MPI_THREAD_SINGLE;

    MPI_Query_thread(&provided);
    return provided == MPI_THREAD_MULTIPLE && (!locks_work || *locks_work);
}

static int begin(void)
{
    int key, code;

    if ((code = MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, end, &key, NULL)) != MPI_SUCCESS ||
        (code = MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL)) != MPI_SUCCESS) {
        return code;
    }
    MPI_Comm_free_keyval(&key);
    agent.has_thread = may_have_thread() && dma_thread_create(&agent.thread, NULL, thread_main, NULL) == 0;
    agent.begun = true;
    return MPI_SUCCESS;
}

int mpix_agent_begin(void)
{
    /* A lock of its own, because the calls of MPI may take long and the thread needs the other lock. */
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    int code;

    pthread_mutex_lock(&once);
    code = agent.begun ? MPI_SUCCESS : begin();
    pthread_mutex_unlock(&once);
    return code;
}

bool mpix_agent_has_thread(void)
{
    return agent.has_thread;
}

void mpix_agent_notify(void)
{
    if (__atomic_load_n(&agent.asleep, __ATOMIC_SEQ_CST)) {
        pthread_mutex_lock(&agent.lock);
        pthread_cond_signal(&agent.work);
        pthread_mutex_unlock(&agent.lock);
    }
}

void mpix_agent_watch(bool more)
{
    pthread_mutex_lock(&agent.lock);
    agent.watched += more ? 1 : -1;
    pthread_cond_signal(&agent.work);
    pthread_mutex_unlock(&agent.lock);
}

void mpix_agent_add(MPIX_Queue queue)
{
    pthread_mutex_lock(&agent.lock);
    queue->next = agent.queues;
    agent.queues = queue;
    pthread_mutex_unlock(&agent.lock);
}

void mpix_agent_remove(MPIX_Queue queue)
{
    MPIX_Queue *at = &agent.queues;

    pthread_mutex_lock(&agent.lock);
    queue->leaving = true;
    while (queue->busy) {
        pthread_cond_wait(&agent.done, &agent.lock);
    }
    while (*at && *at != queue) {
        at = &(*at)->next;
    }
    if (*at) {
        *at = queue->next;
    }
    pthread_mutex_unlock(&agent.lock);
}

void mpix_agent_append(MPIX_Queue queue, mpix_operation_t *operation)
{
    operation->next = NULL;
    pthread_mutex_lock(&agent.lock);
    *queue->tail = operation;
    queue->tail = &operation->next;
    queue->unfinished++;
    agent.unfinished++;
    pthread_cond_signal(&agent.work);
    pthread_mutex_unlock(&agent.lock);
}

void mpix_agent_turn(void)
{
    if (!agent.has_thread) {
        pthread_mutex_lock(&agent.lock);
        (void)turn(false);
        pthread_mutex_unlock(&agent.lock);
    }
}

/* A stream that has failed reaches no start any more. Starts are then made without it, because other ranks wait for them. */
static void look_at_stream(MPIX_Queue queue)
{
    bool failed;

    pthread_mutex_unlock(&agent.lock);
    failed = mpix_stream_progress(&queue->stream) == MPIX_STREAM_FAILED;
    pthread_mutex_lock(&agent.lock);
    if (failed) {
        queue->broken = true;
        queue->error = queue->error == MPI_SUCCESS ? MPI_ERR_OTHER : queue->error;
    }
}

static void drain_by_thread(MPIX_Queue queue)
{
    struct timespec deadline;

    set_deadline(&deadline, LOOK_AT_STREAM_NS);
    while (queue->unfinished > 0) {
        /* `done` is signalled for other queues, too. */
        if (pthread_cond_timedwait(&agent.done, &agent.lock, &deadline) == ETIMEDOUT) {
            if (queue->stream.words && !queue->broken) {
                look_at_stream(queue);
            }
            set_deadline(&deadline, LOOK_AT_STREAM_NS);
        }
    }
}

static void drain_by_caller(MPIX_Queue queue)
{
    while (queue->unfinished > 0) {
        if (!turn(false)) {
            pthread_mutex_unlock(&agent.lock);
            sched_yield();
            pthread_mutex_lock(&agent.lock);
        }
    }
}

void mpix_agent_drain(MPIX_Queue queue)
{
    pthread_mutex_lock(&agent.lock);
    if (agent.has_thread) {
        drain_by_thread(queue);
    } else {
        drain_by_caller(queue);
    }
    pthread_mutex_unlock(&agent.lock);
}

int mpix_agent_take_error(MPIX_Queue queue)
{
    int error;

    pthread_mutex_lock(&agent.lock);
    error = queue->error;
    queue->error = MPI_SUCCESS;
    pthread_mutex_unlock(&agent.lock);
    return error;
}
