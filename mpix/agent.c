/* The agent: the library's thread, or callers of the library; see agent.h. */
#include "agent.h"

#include <dlfcn.h>
#include <errno.h>
#include <mpix_dma.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "dma/thread.h"

/* The thread yields its core after each turn. After PATIENCE turns without progress it sleeps instead. If it only looks, each sleep is
 * longer than the one before by one part of NAP_PARTS, up to MOST_NS: so a start is found late by no more than such a part of the time
 * in which nothing has happened. */
enum { PATIENCE = 2000, NAP_NS = 50 * 1000, NAP_PARTS = 64, MOST_NS = 5 * 1000 * 1000 };

static struct {
    pthread_mutex_t lock; /* of what the thread waits for */
    pthread_cond_t wake;
    pthread_t thread;
    mpix_work_t *works; /* atomic */
    bool begun, has_thread, ending;
    bool asleep; /* atomic: the thread waits for `wake`, or looks for the last time before it does */
} agent = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};

static mpix_work_t *first_work(void)
{
    return __atomic_load_n(&agent.works, __ATOMIC_ACQUIRE);
}

static bool turn(bool is_thread)
{
    bool moved = false;

    for (mpix_work_t *work = first_work(); work; work = work->next) {
        moved |= work->turn(is_thread);
    }
    return moved;
}

static mpix_need_t find_need(void)
{
    mpix_need_t most = MPIX_NEEDS_NOTHING;

    for (mpix_work_t *work = first_work(); work; work = work->next) {
        mpix_need_t need = work->need();

        most = need > most ? need : most;
    }
    return most;
}

/* The thread sleeps until somebody wakes it, or for `ns` if that is not 0. True: it was woken. Whoever stores what find_need looks at
 * sees `asleep`, or find_need sees what they have stored. */
static bool rest(long ns)
{
    struct timespec deadline;
    bool woken = true;

    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_nsec += ns;
    deadline.tv_sec += deadline.tv_nsec / 1000000000;
    deadline.tv_nsec %= 1000000000;
    pthread_mutex_lock(&agent.lock);
    __atomic_store_n(&agent.asleep, true, __ATOMIC_SEQ_CST);
    if (!agent.ending && find_need() < MPIX_NEEDS_TURNS) {
        woken = ns ? pthread_cond_timedwait(&agent.wake, &agent.lock, &deadline) != ETIMEDOUT
                   : !pthread_cond_wait(&agent.wake, &agent.lock);
    }
    __atomic_store_n(&agent.asleep, false, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&agent.lock);
    return woken;
}

static void *thread_main(void *unused)
{
    long nap = NAP_NS;
    unsigned idle = 0;

    (void)unused;
    while (!__atomic_load_n(&agent.ending, __ATOMIC_RELAXED)) {
        mpix_need_t need = find_need();

        idle = need > MPIX_NEEDS_NOTHING && !turn(true) ? idle + 1 : 0;
        if (need == MPIX_NEEDS_NOTHING) {
            (void)rest(0);
        } else if (idle < PATIENCE) {
            nap = NAP_NS;
            sched_yield();
        } else if (need == MPIX_NEEDS_TURNS) {
            nanosleep(&(struct timespec){0, NAP_NS}, NULL);
        } else if (rest(need == MPIX_NEEDS_LOOKS ? nap : 0)) {
            idle = 0;
        } else {
            nap += nap < MOST_NS ? nap / NAP_PARTS : 0;
        }
    }
    return NULL;
}

/* MPI_Finalize first deletes the attributes of MPI_COMM_SELF, and so calls this. */
static int end(MPI_Comm comm, int key, void *value, void *state)
{
    (void)comm;
    (void)key;
    (void)value;
    (void)state;
    for (mpix_work_t *work = first_work(); work; work = work->next) {
        work->stop();
    }
    if (agent.has_thread) {
        pthread_mutex_lock(&agent.lock);
        __atomic_store_n(&agent.ending, true, __ATOMIC_RELAXED);
        pthread_cond_signal(&agent.wake);
        pthread_mutex_unlock(&agent.lock);
        pthread_join(agent.thread, NULL);
        agent.has_thread = false;
    }
    for (mpix_work_t *work = first_work(); work; work = work->next) {
        work->end();
    }
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

int mpix_agent_begin(mpix_work_t *work)
{
    /* A lock of its own, because the calls of MPI may take long and the thread needs the other lock. */
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    const mpix_work_t *known;
    int code;

    pthread_mutex_lock(&once);
    code = agent.begun ? MPI_SUCCESS : begin();
    for (known = agent.works; known && known != work;) {
        known = known->next;
    }
    if (code == MPI_SUCCESS && !known) {
        work->next = agent.works;
        __atomic_store_n(&agent.works, work, __ATOMIC_RELEASE);
    }
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
        pthread_cond_signal(&agent.wake);
        pthread_mutex_unlock(&agent.lock);
    }
}

bool mpix_agent_turn(void)
{
    return !agent.has_thread && turn(false);
}
