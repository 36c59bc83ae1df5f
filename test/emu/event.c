/* Events; see event.h. */
#include "event.h"

#include "clock.h"
#include "config.h"
#include "report.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

enum { ALL = 2 * EMU_EVENTS, LATE = 64 };

#define EMPTY UINT64_MAX /* value of a slot that was not written */

/* A wait under way, in the list of all waits. */
struct waiter {
    struct waiter *next;
    struct emu_wait *waits;
    uint32_t count;
    bool failed;
};

static struct {
    bool there, set, manual;
    int type;
    uint64_t age; /* of a signal event */
    struct emu_event_fault fault;
} events[ALL]; /* the id is the index; 0 is none */

static uint64_t *slots;
static struct waiter *waiters;
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

static bool is_there(uint32_t id)
{
    return id > 0 && id < ALL && events[id].there;
}

uint32_t emu_event_create(int type, bool manual)
{
    bool signals = type == EMU_EVENT_SIGNAL || type == EMU_EVENT_DEBUG;
    uint32_t id = signals ? 1 : EMU_EVENTS, end = signals ? EMU_EVENTS : ALL;
    pthread_mutex_lock(&lock);
    while (id < end && events[id].there)
        id++;
    if (id < end) {
        events[id].there = true;
        events[id].set = false;
        events[id].manual = manual;
        events[id].type = type;
        events[id].age = 1;
        if (slots && signals)
            slots[id] = EMPTY;
    }
    pthread_mutex_unlock(&lock);
    return id < end ? id : 0;
}

bool emu_event_destroy(uint32_t id)
{
    pthread_mutex_lock(&lock);
    bool there = is_there(id);
    if (there) {
        events[id].there = false;
        for (struct waiter *waiter = waiters; waiter; waiter = waiter->next)
            for (uint32_t i = 0; i < waiter->count; i++)
                waiter->failed |= waiter->waits[i].id == id;
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
    return there;
}

/* With the lock. */
static void signal_event(uint32_t id)
{
    bool awaited = false;
    events[id].age++;
    for (struct waiter *waiter = waiters; waiter; waiter = waiter->next)
        for (uint32_t i = 0; i < waiter->count; i++)
            if (waiter->waits[i].id == id)
                awaited = waiter->waits[i].over = true;
    events[id].set = events[id].manual || !awaited;
    if (awaited)
        pthread_cond_broadcast(&changed);
}

static bool is_programs(uint32_t id)
{
    return is_there(id) && events[id].type == EMU_EVENT_SIGNAL;
}

bool emu_event_set(uint32_t id)
{
    pthread_mutex_lock(&lock);
    bool there = is_programs(id);
    if (there)
        signal_event(id);
    pthread_mutex_unlock(&lock);
    return there;
}

bool emu_event_reset(uint32_t id)
{
    pthread_mutex_lock(&lock);
    bool there = is_programs(id);
    if (there)
        events[id].set = false;
    pthread_mutex_unlock(&lock);
    return there;
}

void emu_event_set_page(uint64_t *page)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < EMU_EVENTS; i++)
        page[i] = EMPTY;
    slots = page;
    pthread_mutex_unlock(&lock);
}

bool emu_event_has_page(void)
{
    pthread_mutex_lock(&lock);
    bool has = slots;
    pthread_mutex_unlock(&lock);
    return has;
}

/* Returns whether a slot was written, and empties it. With the lock. */
static bool acknowledge(uint32_t id)
{
    return __atomic_exchange_n(&slots[id], EMPTY, __ATOMIC_ACQ_REL) != EMPTY;
}

static void interrupt(uint32_t id)
{
    pthread_mutex_lock(&lock);
    if (!slots) {
        if (is_there(id))
            signal_event(id);
    } else if (id > 0 && id < EMU_EVENTS && acknowledge(id)) {
        if (is_there(id))
            signal_event(id);
    } else {
        for (id = 1; id < EMU_EVENTS; id++)
            if (events[id].there && acknowledge(id))
                signal_event(id);
    }
    pthread_mutex_unlock(&lock);
}

static struct {
    emu_lose_t lose;
    unsigned n;
    struct {
        uint64_t at;
        uint32_t id;
    } late[LATE];
} interrupts; /* used only by the thread of the engines */

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
        interrupt(id);
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
        interrupt(interrupts.late[i].id);
        interrupts.late[i] = interrupts.late[--interrupts.n];
    }
}

/* Signals all events of a type. If `fault` is not NULL, it is stored in the events first. */
static bool signal_type(int type, const struct emu_event_fault *fault)
{
    bool any = false;
    pthread_mutex_lock(&lock);
    for (uint32_t id = 1; id < ALL; id++)
        if (events[id].there && events[id].type == type) {
            if (fault)
                events[id].fault = *fault;
            signal_event(id);
            any = true;
        }
    pthread_mutex_unlock(&lock);
    return any;
}

bool emu_event_raise_fault(uint32_t node, uint64_t va, bool read_only)
{
    return signal_type(EMU_EVENT_MEMORY,
                       &(struct emu_event_fault){.node = node, .va = va & ~(uint64_t)4095, .read_only = read_only});
}

bool emu_event_raise_reset(void)
{
    return signal_type(EMU_EVENT_HW_EXCEPTION, NULL);
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

static bool satisfied(const struct emu_wait *waits, uint32_t count, bool all)
{
    uint32_t over = 0;
    for (uint32_t i = 0; i < count; i++)
        over += waits[i].over;
    return all ? over == count : over > 0;
}

/* Begins a wait: notes which of the events are signalled already. False: one of them does not exist. */
static bool enter(struct emu_wait *waits, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (!is_there(waits[i].id))
            return false;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t id = waits[i].id;
        waits[i].over = events[id].set || (waits[i].age && waits[i].age != events[id].age);
        events[id].set &= events[id].manual;
    }
    return true;
}

enum emu_wait_result emu_event_wait(struct emu_wait *waits, uint32_t count, bool all, uint32_t milliseconds)
{
    struct timespec until = deadline(milliseconds);
    struct waiter waiter = {.waits = waits, .count = count};
    bool late = false;
    pthread_mutex_lock(&lock);
    if (!enter(waits, count)) {
        pthread_mutex_unlock(&lock);
        return EMU_WAIT_UNKNOWN;
    }
    waiter.next = waiters;
    waiters = &waiter;
    while (!waiter.failed && !satisfied(waits, count, all) && !late) {
        if (milliseconds == EMU_WAIT_FOREVER)
            pthread_cond_wait(&changed, &lock);
        else
            late = milliseconds == 0 || pthread_cond_timedwait(&changed, &lock, &until) == ETIMEDOUT;
    }
    struct waiter **at = &waiters;
    while (*at != &waiter)
        at = &(*at)->next;
    *at = waiter.next;
    bool done = satisfied(waits, count, all);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t id = waits[i].id;
        waits[i].type = events[id].type;
        waits[i].fault = events[id].fault;
        waits[i].age = events[id].age;
        /* A wait that timed out leaves its signals for the next wait. */
        if (!done && !waiter.failed && waits[i].over)
            events[id].set = true;
    }
    pthread_mutex_unlock(&lock);
    return waiter.failed ? EMU_WAIT_FAILED : done ? EMU_WAIT_DONE : EMU_WAIT_LATE;
}
