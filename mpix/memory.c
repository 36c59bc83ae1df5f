/* Memory that devices and the host share; see memory.h. */
#include "memory.h"

#include <mpix_dma.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "runtime.h"

/* Flags and attributes, equal in HIP and CUDA where both have them. Coherent: the host sees stores of a kernel while it runs. */
enum { DONE = 0, PORTABLE = 1, MAPPED = 2, HIP_COHERENT = 0x40000000, HIP_SIGNAL = 2, BUFFER_ID = 7 };
enum { LINE = 64, ROOM_FOR_ATTRIBUTES = 512 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the list */
static mpix_memory_t *all;

/* The first member of the attributes is the type of memory: 0 for host memory and for memory that HIP does not know. */
static bool is_of_hip(const mpix_runtime_t *hip, const void *buffer)
{
    int attributes[ROOM_FOR_ATTRIBUTES / sizeof(int)] = {0};

    if (buffer == MPI_IN_PLACE || !buffer) {
        return false;
    }
    if (hip->attributes(attributes, buffer) != DONE) {
        (void)hip->last_error();
        return false;
    }
    return attributes[0] != 0;
}

int mpix_memory_type(const void *one, const void *other)
{
    const mpix_runtime_t *rt = mpix_runtime(MPIX_QUEUE_CUDA);
    void *context = NULL;

    if (rt && rt->get_context(&context) == DONE && context) {
        return MPIX_QUEUE_CUDA;
    }
    rt = mpix_runtime(MPIX_QUEUE_HIP);
    return rt && (is_of_hip(rt, one) || is_of_hip(rt, other)) ? MPIX_QUEUE_HIP : MPIX_QUEUE_THREAD;
}

/* What the runtime says of memory. HIP keeps an error for the program, which has not made these calls. */
static mpix_place_t look(const mpix_runtime_t *rt, void *memory)
{
    mpix_place_t seen = {.at = memory};

    if (!rt->address || rt->address(&seen.there, memory, 0) != DONE) {
        seen.there = 0;
    }
    if (!rt->attribute || rt->attribute(&seen.id, BUFFER_ID, memory) != DONE) {
        seen.id = 0;
    }
    if (rt->last_error) {
        (void)rt->last_error();
    }
    return seen;
}

static bool is_there(const mpix_runtime_t *rt, const mpix_place_t *place)
{
    mpix_place_t now = look(rt, place->at);

    return now.there == place->there && now.id == place->id;
}

/* Returns why the device cannot use it, or NULL. HIP requires an allocation of signal memory for each word that a stream waits for. */
static const char *alloc(int type, bool is_signal, size_t bytes, mpix_place_t *place)
{
    const mpix_runtime_t *rt = mpix_runtime(type);
    bool hip_signal = is_signal && type == MPIX_QUEUE_HIP;
    unsigned flags = hip_signal ? HIP_SIGNAL : PORTABLE | MAPPED | (type == MPIX_QUEUE_HIP ? HIP_COHERENT : 0);
    int (*alloc)(void **, size_t, unsigned) = hip_signal ? rt->signal_alloc : rt->host_alloc;
    int (*release)(void *) = hip_signal ? rt->signal_free : rt->host_free;
    void *memory = NULL;

    if (!alloc || !release || (!hip_signal && !rt->address)) {
        return "the runtime cannot map memory of the host";
    }
    if (alloc(&memory, bytes, flags) != DONE) {
        *place = look(rt, NULL);
        return "the runtime refuses memory that it maps";
    }
    *place = look(rt, memory);
    if (hip_signal || place->there == (uintptr_t)memory || (is_signal && place->there)) {
        memset(memory, 0, bytes);
        return NULL;
    }
    (void)release(memory);
    return "the device has another address for them";
}

/* With the lock. Memory that nobody uses, or NULL. What a reset of the device has freed is forgotten. */
static mpix_memory_t *find(int type, int device, size_t bytes)
{
    const mpix_runtime_t *rt = type == MPIX_QUEUE_THREAD ? NULL : mpix_runtime(type);
    mpix_memory_t **link = &all, *m;

    while ((m = *link)) {
        if (m->used || m->type != type || m->device != device || m->bytes < bytes || !m->bytes != !bytes) {
            link = &m->next;
        } else if (!rt || (is_there(rt, &m->place[0]) && (m->bytes || is_there(rt, &m->place[1])))) {
            return m;
        } else {
            *link = m->next;
            free(m);
        }
    }
    return NULL;
}

/* With the lock. */
static mpix_memory_t *make_for_kernels(int type, size_t bytes)
{
    mpix_memory_t *m = calloc(1, sizeof(*m));
    const char *why;

    if (!m) {
        return NULL;
    }
    *m = (mpix_memory_t){.type = type, .device = -1, .bytes = bytes};
    if (type != MPIX_QUEUE_THREAD && (why = alloc(type, false, bytes, &m->place[0]))) {
        mpix_tell("kernels cannot use the words of a partitioned request", why);
        m->type = MPIX_QUEUE_THREAD;
    }
    if (m->type == MPIX_QUEUE_THREAD && posix_memalign(&m->place[0].at, LINE, bytes)) {
        free(m);
        return NULL;
    }
    return m;
}

/* With the lock. */
static mpix_memory_t *make_for_stream(int type, int device)
{
    mpix_memory_t *m = calloc(1, sizeof(*m));

    if (m) {
        *m = (mpix_memory_t){.type = type, .device = device};
    }
    /* The first word stays allocated if there is no second. */
    if (m && (alloc(type, true, sizeof(uint64_t), &m->place[0]) || alloc(type, true, sizeof(uint64_t), &m->place[1]))) {
        free(m);
        return NULL;
    }
    return m;
}

static mpix_memory_t *take(int type, int device, size_t bytes)
{
    mpix_memory_t *m;

    pthread_mutex_lock(&lock);
    m = find(type, device, bytes);
    if (!m && (m = bytes ? make_for_kernels(type, bytes) : make_for_stream(type, device))) {
        m->next = all;
        all = m;
    }
    if (m) {
        m->used = true;
    }
    pthread_mutex_unlock(&lock);
    return m;
}

mpix_memory_t *mpix_memory_for_kernels(int type, size_t bytes)
{
    mpix_memory_t *m = take(type, -1, (bytes + LINE - 1) / LINE * LINE);

    if (m) {
        memset(m->place[0].at, 0, bytes);
    }
    return m;
}

mpix_memory_t *mpix_memory_for_stream(int type, int device)
{
    return take(type, type == MPIX_QUEUE_HIP ? device : -1, 0);
}

void mpix_memory_give_back(mpix_memory_t *memory)
{
    if (memory) {
        pthread_mutex_lock(&lock);
        memory->used = false;
        pthread_mutex_unlock(&lock);
    }
}
