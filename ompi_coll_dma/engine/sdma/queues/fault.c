/* Faults of a GPU: see fault.h. */
#include "engine/sdma/queues/fault.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dma/clock.h"
#include "dma/thread.h"

static struct {
    pthread_mutex_t lock; /* guards all members, and those of the faults in the list */
    pthread_cond_t changed;
    dma_fault_t *list;
    uintptr_t last;          /* the number of the last fault that was put into the list */
    bool registered, failed; /* the handler */
} watched = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* With the lock. A number is never used again, but an address is: a unit that is opened later may be where this one was. */
static const dma_fault_t *find_watched(uintptr_t number)
{
    const dma_fault_t *f = watched.list;

    while (f && f->number != number) {
        f = f->next;
    }
    return f;
}

/* Ends the process, unless somebody is told in time. */
static void *watchdog(void *number)
{
    const dma_fault_t *fault;
    double until = 0;

    pthread_mutex_lock(&watched.lock);
    while ((fault = find_watched((uintptr_t)number)) && !fault->told) {
        struct timespec turn;

        until = until > 0 ? until : dma_now() + fault->seconds;
        if (dma_now() > until) {
            fprintf(stderr, "coll/dma: %s, and the application waits for something else than MPI\n", fault->text);
            abort();
        }
        clock_gettime(CLOCK_REALTIME, &turn); /* short turns: this clock may be set meanwhile */
        turn.tv_sec++;
        pthread_cond_timedwait(&watched.changed, &watched.lock, &turn);
    }
    pthread_mutex_unlock(&watched.lock);
    return NULL;
}

static bool start_watchdog(const dma_fault_t *fault)
{
    pthread_attr_t attr;
    pthread_t thread;
    bool started;

    if (pthread_attr_init(&attr)) {
        return false;
    }
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    started = !dma_thread_create(&thread, &attr, watchdog, (void *)fault->number);
    pthread_attr_destroy(&attr);
    return started;
}

static void describe(dma_fault_t *fault, const dma_rocr_event_t *event)
{
    if (event->type == DMA_ROCR_EVENT_FAULT) {
        snprintf(fault->text, sizeof(fault->text), "the GPU faulted at address %#llx (%s)",
                 (unsigned long long)event->address,
                 event->reasons & DMA_ROCR_FAULT_NOT_PRESENT ? "no memory there"
                 : event->reasons & DMA_ROCR_FAULT_READ_ONLY ? "the memory is read-only"
                                                             : "access refused, or an error of the memory");
    } else {
        snprintf(fault->text, sizeof(fault->text), "the GPU or an engine of it hung, and the driver has reset it");
    }
}

/* In a thread of ROCr. */
static uint32_t handle_event(const dma_rocr_event_t *event, void *data)
{
    bool fault = event->type == DMA_ROCR_EVENT_FAULT, ours = false;

    (void)data;
    if (!fault && event->type != DMA_ROCR_EVENT_RESET) {
        return DMA_ROCR_ERROR;
    }
    pthread_mutex_lock(&watched.lock);
    for (dma_fault_t *f = watched.list; f; f = f->next) {
        if (f->agent != event->agent.handle || !f->busy(f->arg, fault ? event->address : 0)) {
            continue;
        }
        if (atomic_load_explicit(&f->happened, memory_order_relaxed)) {
            ours = true; /* one event follows from another */
        } else {
            describe(f, event);
            /* release: the text comes first */
            atomic_store_explicit(&f->happened, true, memory_order_release);
            ours |= start_watchdog(f);
        }
    }
    pthread_mutex_unlock(&watched.lock);
    return ours ? DMA_ROCR_SUCCESS : DMA_ROCR_ERROR;
}

/* Keeps this code mapped until the process ends. */
static bool stay_mapped(void)
{
    struct link_map *map;
    Dl_info info;

    if (!dladdr1((void *)(uintptr_t)handle_event, &info, (void **)&map, RTLD_DL_LINKMAP)) {
        return false;
    }
    return !map->l_name[0] || dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE); /* "": the program itself */
}

/* With the lock. Once in a process. */
static bool register_handler(const dma_rocr_t *rocr)
{
    if (!watched.registered && !watched.failed) {
        watched.registered = rocr->on_event && stay_mapped() && rocr->on_event(handle_event, NULL) == DMA_ROCR_SUCCESS;
        watched.failed = !watched.registered;
    }
    return watched.registered;
}

bool dma_fault_watch(dma_fault_t *fault, const dma_rocr_t *rocr, dma_rocr_handle_t agent, double seconds,
                     bool (*busy)(void *arg, uint64_t address), void *arg)
{
    bool registered;

    memset(fault, 0, sizeof(*fault));
    fault->agent = agent.handle;
    fault->seconds = seconds;
    fault->busy = busy;
    fault->arg = arg;
    pthread_mutex_lock(&watched.lock);
    registered = register_handler(rocr);
    if (registered) {
        fault->number = ++watched.last;
        fault->next = watched.list;
        watched.list = fault;
    }
    pthread_mutex_unlock(&watched.lock);
    return registered;
}

void dma_fault_unwatch(dma_fault_t *fault)
{
    dma_fault_t **link = &watched.list;

    pthread_mutex_lock(&watched.lock);
    while (*link && *link != fault) {
        link = &(*link)->next;
    }
    if (*link) {
        *link = fault->next;
    }
    pthread_cond_broadcast(&watched.changed);
    pthread_mutex_unlock(&watched.lock);
}

void dma_fault_told(dma_fault_t *fault)
{
    pthread_mutex_lock(&watched.lock);
    fault->told = true;
    pthread_cond_broadcast(&watched.changed);
    pthread_mutex_unlock(&watched.lock);
}
