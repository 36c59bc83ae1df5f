/* The thunk's calls for events; see event.h. */
#include "event.h"

#include "api.h"
#include "clock.h"
#include "config.h"
#include "memory.h"
#include "report.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum { EVENTS = 4096, LATE = 64 };

static struct {
    HsaEvent *event;
    bool set, manual;
} events[EVENTS]; /* the id is the index; 0 is none */

static uint64_t *mailboxes; /* one per event */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;

__attribute__((constructor)) static void prepare(void)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&changed, &attributes);
    pthread_condattr_destroy(&attributes);
}

static void make_mailboxes(void)
{
    mailboxes = emu_memory_internal(EVENTS * sizeof *mailboxes);
}

HSAKMT_STATUS hsaKmtCreateEvent(HsaEventDescriptor *descriptor, bool manual, bool signaled, HsaEvent **out)
{
    EMU_API_ENTER();
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_mailboxes);
    HsaEvent *event = calloc(1, sizeof *event);
    if (!event || !mailboxes) {
        free(event);
        return HSAKMT_STATUS_NO_MEMORY;
    }
    pthread_mutex_lock(&lock);
    uint32_t id = 1;
    while (id < EVENTS && events[id].event)
        id++;
    if (id == EVENTS) {
        pthread_mutex_unlock(&lock);
        free(event);
        return HSAKMT_STATUS_OUT_OF_RESOURCES;
    }
    event->EventId = id;
    event->EventData.EventType = descriptor->EventType;
    event->EventData.EventData.SyncVar = descriptor->SyncVar;
    event->EventData.HWData1 = id;
    if (descriptor->EventType == HSA_EVENTTYPE_SIGNAL)
        event->EventData.HWData2 = (uintptr_t)&mailboxes[id];
    events[id].event = event;
    events[id].set = signaled;
    events[id].manual = manual;
    pthread_mutex_unlock(&lock);
    *out = event;
    return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtDestroyEvent(HsaEvent *event)
{
    EMU_API_ENTER();
    if (!event)
        return HSAKMT_STATUS_INVALID_HANDLE;
    pthread_mutex_lock(&lock);
    events[event->EventId].event = NULL;
    pthread_mutex_unlock(&lock);
    free(event);
    return HSAKMT_STATUS_SUCCESS;
}

void emu_event_signal(uint32_t id)
{
    if (id == 0 || id >= EVENTS)
        return;
    pthread_mutex_lock(&lock);
    events[id].set = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static struct {
    emu_lose_t lose;
    unsigned n;
    struct {
        uint64_t at;
        uint32_t id;
    } late[LATE];
} interrupts; /* of the thread of the engines alone */

void emu_event_interrupt(int gpu, uint32_t id)
{
    const emu_lose_rules_t *rules = &emu_config()->sdma.lose;
    uint64_t late_ns;
    if (!interrupts.lose.random)
        interrupts.lose.random = ~emu_config()->seed;
    emu_lose_how_t how = emu_lose(rules, &interrupts.lose, EMU_LOSE_TRAP, gpu, &late_ns);
    if (how != EMU_LOSE_NOT)
        emu_note("injected on GPU %d: %s trap", gpu, emu_lose_how_word(how));
    if (how == EMU_LOSE_NOT || how == EMU_LOSE_TWICE)
        emu_event_signal(id);
    if ((how == EMU_LOSE_LATE || how == EMU_LOSE_TWICE) && interrupts.n < LATE) {
        interrupts.late[interrupts.n].at = emu_clock_ns() + late_ns;
        interrupts.late[interrupts.n++].id = id;
    }
}

void emu_event_advance(void)
{
    for (unsigned i = 0; i < interrupts.n;) {
        if (emu_clock_ns() < interrupts.late[i].at) {
            i++;
            continue;
        }
        emu_event_signal(interrupts.late[i].id);
        interrupts.late[i] = interrupts.late[--interrupts.n];
    }
}

/* Signals all events of a type; fault, if given, goes into them first. */
static bool signal_type(HSA_EVENTTYPE type, const HsaMemoryAccessFault *fault)
{
    bool any = false;
    pthread_mutex_lock(&lock);
    for (uint32_t id = 1; id < EVENTS; id++)
        if (events[id].event && events[id].event->EventData.EventType == type) {
            if (fault)
                events[id].event->EventData.EventData.MemoryAccessFault = *fault;
            events[id].set = true;
            any = true;
        }
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return any;
}

bool emu_event_fault(uint32_t node, uint64_t va, bool read_only)
{
    HsaMemoryAccessFault fault = {
        .NodeId = node, .VirtualAddress = va & ~(uint64_t)4095, .Flags = HSA_EVENTID_MEMORY_FATAL_PROCESS};
    fault.Failure.NotPresent = !read_only;
    fault.Failure.ReadOnly = read_only;
    return signal_type(HSA_EVENTTYPE_MEMORY, &fault);
}

bool emu_event_reset(void)
{
    return signal_type(HSA_EVENTTYPE_HW_EXCEPTION, NULL);
}

HSAKMT_STATUS hsaKmtSetEvent(HsaEvent *event)
{
    EMU_API_ENTER();
    if (!event)
        return HSAKMT_STATUS_INVALID_HANDLE;
    emu_event_signal(event->EventId);
    return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtResetEvent(HsaEvent *event)
{
    EMU_API_ENTER();
    if (!event)
        return HSAKMT_STATUS_INVALID_HANDLE;
    pthread_mutex_lock(&lock);
    events[event->EventId].set = false;
    pthread_mutex_unlock(&lock);
    return HSAKMT_STATUS_SUCCESS;
}

/* With the lock held: whether the wait is over. */
static bool satisfied(HsaEvent *const wanted[], uint32_t count, bool all)
{
    uint32_t ready = 0;
    for (uint32_t i = 0; i < count; i++)
        ready += events[wanted[i]->EventId].set;
    return all ? ready == count : ready > 0;
}

static struct timespec deadline(uint32_t milliseconds)
{
    struct timespec when;
    clock_gettime(CLOCK_MONOTONIC, &when);
    when.tv_sec += milliseconds / 1000;
    when.tv_nsec += milliseconds % 1000 * 1000000l;
    if (when.tv_nsec >= 1000000000) {
        when.tv_nsec -= 1000000000;
        when.tv_sec++;
    }
    return when;
}

HSAKMT_STATUS hsaKmtWaitOnMultipleEvents(HsaEvent *wanted[], HSAuint32 count, bool all, HSAuint32 milliseconds)
{
    EMU_API_ENTER();
    if (!wanted || count == 0)
        return HSAKMT_STATUS_INVALID_HANDLE;
    struct timespec until = deadline(milliseconds);
    /* ROCr passes one less than infinite where it means that, too. */
    bool forever = milliseconds >= HSA_EVENTTIMEOUT_INFINITE - 1;
    pthread_mutex_lock(&lock);
    bool done, late = false;
    while (!(done = satisfied(wanted, count, all)) && !late) {
        if (forever)
            pthread_cond_wait(&changed, &lock);
        else
            late = pthread_cond_timedwait(&changed, &lock, &until) == ETIMEDOUT;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t id = wanted[i]->EventId;
        if (done && !events[id].manual)
            events[id].set = false;
    }
    pthread_mutex_unlock(&lock);
    return done ? HSAKMT_STATUS_SUCCESS : HSAKMT_STATUS_WAIT_TIMEOUT;
}

HSAKMT_STATUS hsaKmtWaitOnEvent(HsaEvent *event, HSAuint32 milliseconds)
{
    return event ? hsaKmtWaitOnMultipleEvents(&event, 1, true, milliseconds) : HSAKMT_STATUS_INVALID_HANDLE;
}

HSAKMT_STATUS hsaKmtQueryEventState(HsaEvent *event)
{
    return hsaKmtWaitOnEvent(event, HSA_EVENTTIMEOUT_IMMEDIATE);
}
