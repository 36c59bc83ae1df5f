/*
 * The fake CUDA: streams and connections.
 *
 * A connection is a thread that carries out works in the order in which they were put into it. A stream has a connection of its
 * own, or shares it with others. Work of the default stream waits for all streams that were created as blocking, and they for it.
 */
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "fake_cuda.h"

enum { FULL = 1024 /* works in a connection, as measured */, MOST_CONNECTIONS = 64, STACK = 1 << 20 };

typedef struct fake_connection {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    fake_work_t *head, **tail;
    unsigned pending, streams;
} fake_connection_t;

/* Guarded by the driver lock, except that streams are added at the front, where readers need no lock. */
static fake_stream_t *streams, *defaults[FAKE_DEVICES];
static fake_connection_t *shared[MOST_CONNECTIONS];
static unsigned created;
static int waiting[FAKE_DEVICES];

static void rest(void)
{
    usleep(50);
}

static uint64_t completed(const fake_stream_t *s)
{
    return __atomic_load_n(&s->completed, __ATOMIC_ACQUIRE);
}

static uint64_t submitted(const fake_stream_t *s)
{
    return __atomic_load_n(&s->submitted, __ATOMIC_ACQUIRE);
}

static bool is_broken(const fake_stream_t *s)
{
    return __atomic_load_n(&s->broken, __ATOMIC_ACQUIRE);
}

/* ---- connections ---- */

static void *carry_out(void *arg)
{
    fake_connection_t *c = arg;
    fake_stream_t *stream;
    fake_work_t *work;

    pthread_mutex_lock(&c->lock);
    while (c->streams || c->head) {
        if (!c->head) {
            pthread_cond_wait(&c->changed, &c->lock);
            continue;
        }
        work = c->head;
        c->head = work->next;
        c->tail = c->head ? c->tail : &c->head;
        pthread_mutex_unlock(&c->lock);
        stream = work->stream;
        if (!is_broken(stream)) {
            fake_dawdle();
            work->run(work);
        }
        free(work);
        pthread_mutex_lock(&c->lock);
        __atomic_store_n(&c->pending, c->pending - 1, __ATOMIC_RELEASE);
        __atomic_store_n(&stream->completed, stream->completed + 1, __ATOMIC_RELEASE);
        pthread_cond_broadcast(&c->changed);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

static fake_connection_t *make_connection(void)
{
    fake_connection_t *c = calloc(1, sizeof(*c));
    pthread_attr_t attributes;
    pthread_t thread;

    if (!c) {
        return NULL;
    }
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    c->tail = &c->head;
    c->streams = 1; /* so that the thread waits for the first one */
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &attributes, carry_out, c)) {
        free(c);
        c = NULL;
    }
    pthread_attr_destroy(&attributes);
    return c;
}

/* Shared connections stay for good. */
static fake_connection_t *take_connection(void)
{
    int n = fake_state.connections < MOST_CONNECTIONS ? fake_state.connections : MOST_CONNECTIONS;
    fake_connection_t **slot;

    if (n <= 0) {
        return make_connection();
    }
    slot = &shared[created++ % (unsigned)n];
    *slot = *slot ? *slot : make_connection();
    return *slot;
}

/* ---- streams ---- */

cuda_error_t fake_check_stream(const fake_stream_t *stream, const char *call)
{
    cuda_error_t error;
    int device;

    if ((error = fake_enter(&device)) != CUDA_DONE) {
        return error;
    }
    return stream && __atomic_load_n(&stream->destroyed, __ATOMIC_ACQUIRE)
               ? fake_complain(FAKE_BAD_HANDLE, call, "the stream has been destroyed", (uintptr_t)stream)
               : CUDA_DONE;
}

/* With the driver lock. */
static cuda_error_t make_stream(unsigned flags, fake_stream_t **result)
{
    fake_stream_t *s = calloc(1, sizeof(*s));

    if (s) {
        s->flags = flags;
        s->next = streams;
        s->connection = take_connection();
    }
    if (!s || !s->connection) {
        free(s);
        return CUDA_OUT_OF_MEMORY;
    }
    (void)cuCtxGetCurrent(&s->context);
    __atomic_store_n(&streams, s, __ATOMIC_RELEASE);
    *result = s;
    return CUDA_DONE;
}

cuda_error_t cuStreamCreate(fake_stream_t **stream, unsigned flags)
{
    cuda_error_t error;
    int device;

    if ((error = fake_enter(&device)) != CUDA_DONE) {
        return error;
    }
    if (flags > CUDA_STREAM_NON_BLOCKING) {
        return FAKE_INVALID;
    }
    fake_lock_driver();
    error = make_stream(flags, stream);
    fake_unlock_driver();
    return error;
}

/* What is in the stream is still carried out. */
cuda_error_t cuStreamDestroy_v2(fake_stream_t *s)
{
    cuda_error_t error = fake_check_stream(s, "cuStreamDestroy");

    if (error) {
        return error;
    }
    __atomic_store_n(&s->destroyed, true, __ATOMIC_RELEASE);
    if (!fake_state.connections) {
        pthread_mutex_lock(&s->connection->lock);
        s->connection->streams--;
        pthread_cond_broadcast(&s->connection->changed);
        pthread_mutex_unlock(&s->connection->lock);
    }
    return CUDA_DONE;
}

cuda_error_t cuStreamGetFlags(fake_stream_t *s, unsigned *flags)
{
    *flags = s ? s->flags : 0;
    return fake_check_stream(s, "cuStreamGetFlags");
}

cuda_error_t cuStreamGetCtx(fake_stream_t *s, struct CUctx_st **context)
{
    cuda_error_t error = fake_check_stream(s, "cuStreamGetCtx");

    if (!error && s) {
        *context = s->context;
    } else if (!error) {
        error = cuCtxGetCurrent(context);
    }
    return error;
}

/* All calls for the stream fail from now on, and what it has not carried out is dropped. */
void fake_break(fake_stream_t *s)
{
    pthread_mutex_lock(&s->connection->lock);
    __atomic_store_n(&s->broken, true, __ATOMIC_RELEASE);
    pthread_cond_broadcast(&s->connection->changed);
    pthread_mutex_unlock(&s->connection->lock);
}

int fake_synchronizations(const fake_stream_t *stream)
{
    int n = 0;

    for (const fake_stream_t *s = __atomic_load_n(&streams, __ATOMIC_ACQUIRE); s; s = s->next) {
        n += !stream || s == stream ? __atomic_load_n(&s->synchronizations, __ATOMIC_ACQUIRE) : 0;
    }
    return n;
}

/* ---- work ---- */

fake_work_t *fake_work_make(void (*run)(fake_work_t *work), size_t n)
{
    fake_work_t *work = calloc(1, sizeof(*work) + n * sizeof(fake_piece_t));

    if (!work) {
        abort();
    }
    work->run = run;
    work->n = n;
    return work;
}

/* With the driver lock. A connection that is full makes the call wait, and with it all calls that need the lock. */
static void put(fake_stream_t *s, fake_work_t *work)
{
    fake_connection_t *c = s->connection;

    while (__atomic_load_n(&c->pending, __ATOMIC_ACQUIRE) >= FULL && !is_broken(s)) {
        rest();
    }
    work->stream = s;
    pthread_mutex_lock(&c->lock);
    *c->tail = work;
    c->tail = &work->next;
    __atomic_store_n(&c->pending, c->pending + 1, __ATOMIC_RELEASE);
    __atomic_store_n(&s->submitted, s->submitted + 1, __ATOMIC_RELEASE);
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

static void run_join(fake_work_t *work)
{
    const fake_stream_t *other = work->arg;

    while (completed(other) < work->value && !is_broken(other)) {
        rest();
    }
}

/* With the driver lock: what is put into `s` next waits for all that `other` has now. */
static void join(fake_stream_t *s, fake_stream_t *other)
{
    fake_work_t *work;

    if (other && other != s && completed(other) < submitted(other)) {
        work = fake_work_make(run_join, 0);
        work->arg = other;
        work->value = submitted(other);
        put(s, work);
    }
}

static cuda_error_t default_stream(int device, fake_stream_t **stream)
{
    cuda_error_t error = defaults[device] ? CUDA_DONE : make_stream(0, &defaults[device]);

    *stream = defaults[device];
    return error;
}

static void join_others(fake_stream_t *s, int device)
{
    if (s->flags & CUDA_STREAM_NON_BLOCKING) {
        return;
    }
    if (s != defaults[device]) {
        join(s, defaults[device]);
        return;
    }
    for (fake_stream_t *o = streams; o; o = o->next) {
        if (o->context == s->context && !o->flags) {
            join(s, o);
        }
    }
}

cuda_error_t fake_submit(fake_stream_t *stream, fake_work_t *work, const char *call)
{
    cuda_error_t error = fake_check_stream(stream, call);
    int device = 0;

    if (!error) {
        fake_lock_driver();
        (void)fake_enter(&device);
        error = stream ? CUDA_DONE : default_stream(device, &stream);
        error = !error && is_broken(stream) ? FAKE_FAULT : error;
        if (!error) {
            join_others(stream, stream->context->device);
            put(stream, work);
            work = NULL;
        }
        fake_unlock_driver();
    }
    free(work);
    return error;
}

/* ---- waiting for streams ---- */

void fake_waiting(const fake_stream_t *stream, int change)
{
    __atomic_add_fetch(&waiting[stream->context->device], change, __ATOMIC_ACQ_REL);
}

bool fake_stops_waiting(const fake_stream_t *stream)
{
    return is_broken(stream);
}

void fake_wait_for_waiting(int device)
{
    while (__atomic_load_n(&waiting[device], __ATOMIC_ACQUIRE)) {
        rest();
    }
}

static void wait_for(const fake_stream_t *s, uint64_t until)
{
    while (completed(s) < until && !is_broken(s)) {
        rest();
    }
}

void fake_wait_until_idle(int device)
{
    for (const fake_stream_t *s = __atomic_load_n(&streams, __ATOMIC_ACQUIRE); s; s = s->next) {
        if (s->context->device == device) {
            wait_for(s, submitted(s));
        }
    }
}

cuda_error_t cuCtxSynchronize(void)
{
    cuda_error_t error;
    int device;

    if ((error = fake_enter(&device)) == CUDA_DONE) {
        fake_wait_until_idle(device);
    }
    return error;
}

/* For the default stream: all streams that wait for it. */
static cuda_error_t synchronize_blocking(void)
{
    cuda_error_t error;
    int device;

    if ((error = fake_enter(&device)) != CUDA_DONE) {
        return error;
    }
    for (const fake_stream_t *s = __atomic_load_n(&streams, __ATOMIC_ACQUIRE); s; s = s->next) {
        if (s->context->device == device && !s->flags) {
            wait_for(s, submitted(s));
        }
    }
    return CUDA_DONE;
}

cuda_error_t cuStreamQuery(fake_stream_t *s)
{
    cuda_error_t error = s ? fake_check_stream(s, "cuStreamQuery") : FAKE_INVALID;

    return error ? error : is_broken(s) ? FAKE_FAULT : completed(s) < submitted(s) ? CUDA_NOT_READY : CUDA_DONE;
}

cuda_error_t cuStreamSynchronize(fake_stream_t *s)
{
    cuda_error_t error = fake_check_stream(s, "cuStreamSynchronize");
    uint64_t until;

    if (error || !s) {
        return error ? error : synchronize_blocking();
    }
    __atomic_add_fetch(&s->synchronizations, 1, __ATOMIC_RELEASE);
    until = submitted(s);
    pthread_mutex_lock(&s->connection->lock);
    while (completed(s) < until && !is_broken(s)) {
        pthread_cond_wait(&s->connection->changed, &s->connection->lock);
    }
    pthread_mutex_unlock(&s->connection->lock);
    return is_broken(s) ? FAKE_FAULT : CUDA_DONE;
}
