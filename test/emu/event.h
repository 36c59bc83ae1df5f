/*
 * Events, which GPU interrupts signal. An event has a state and an age. A signal ends all waits for the event that are under
 * way, and raises the age. If there is no wait, the signal sets the state. The next wait then ends at once, and clears the
 * state unless the event is a manual one. A wait that names another age than the event's also ends at once: so two threads can
 * wait for an event that resets itself, and neither misses a signal.
 *
 * A signal event has a slot, a word in memory that GPUs can write. An engine writes the slot and raises an interrupt with the
 * event's id. If the node has the page of slots, the interrupt signals the event only if the slot was written, and empties the
 * slot. Otherwise it signals all events whose slots were written. The kernel does the same.
 */
#ifndef EMU_EVENT_H
#define EMU_EVENT_H

#include <stdbool.h>
#include <stdint.h>

enum { EMU_EVENTS = 4096 }; /* number of signal events, and of other events */

/* The numbers of the thunk and of the kernel. */
enum emu_event_type { EMU_EVENT_SIGNAL = 0, EMU_EVENT_HW_EXCEPTION = 3, EMU_EVENT_DEBUG = 5, EMU_EVENT_MEMORY = 8 };

/* The description of a memory fault. */
struct emu_event_fault {
    uint32_t node;
    uint64_t va;
    bool read_only;
};

/* Returns the id, or 0 if there is no room. Ids of signal events are below EMU_EVENTS. */
uint32_t emu_event_create(int type, bool manual);
/* False: there is no such event. Waits for the event fail. */
bool emu_event_destroy(uint32_t id);
/* For programs, and so for signal events only. False: there is no such event, or it is of another type. */
bool emu_event_set(uint32_t id);
bool emu_event_reset(uint32_t id);

/* Sets the page of slots, which has EMU_EVENTS words, and empties all of them. */
void emu_event_set_page(uint64_t *page);
bool emu_event_has_page(void);

/* One event of a wait. */
struct emu_wait {
    uint32_t id;
    uint64_t age; /* in: the age that the caller knows, 0: none; out: the event's */
    struct emu_event_fault fault;
    int type;
    bool over; /* signalled meanwhile */
};

enum emu_wait_result { EMU_WAIT_DONE, EMU_WAIT_LATE, EMU_WAIT_FAILED, EMU_WAIT_UNKNOWN };
enum { EMU_WAIT_FOREVER = UINT32_MAX };

/* FAILED: an event was destroyed during the wait. UNKNOWN: an event does not exist. */
enum emu_wait_result emu_event_wait(struct emu_wait *waits, uint32_t count, bool all, uint32_t milliseconds);

/* In the thread of the engines: an interrupt of a GPU that signals an event, unless EMU_LOSE drops it. */
void emu_event_interrupt(int gpu, uint32_t id);
/* Raises late interrupts that are due. */
void emu_event_advance(void);

/* Signals a memory fault. False: there is no event for memory faults. */
bool emu_event_raise_fault(uint32_t node, uint64_t va, bool read_only);

/* Signals the reset of an engine. False: there is no event for it. */
bool emu_event_raise_reset(void);

#endif
