/*
 * Events: what a GPU interrupt wakes. Each has a state, set by a signal that nobody waits for and, unless it is a manual one,
 * cleared by the wait that it ends; and an age, which every signal raises. A signal ends all waits that are under way. A waiter
 * that names an older age than the event's does not sleep: two may wait for one event that resets itself, and neither misses
 * a signal.
 *
 * A signal event has a slot, a word in GPU-visible memory. An engine writes there and raises an interrupt with the event's
 * id. Where the node has the page of slots, an interrupt counts only if the slot was written, which it empties again; with a
 * slot that was not, all events are signalled whose slots were. So the kernel has it.
 */
#ifndef EMU_EVENT_H
#define EMU_EVENT_H

#include <stdbool.h>
#include <stdint.h>

enum { EMU_EVENTS = 4096 }; /* signal events, and as many others */

/* As thunk and kernel number them. */
enum emu_event_type { EMU_EVENT_SIGNAL = 0, EMU_EVENT_HW_EXCEPTION = 3, EMU_EVENT_DEBUG = 5, EMU_EVENT_MEMORY = 8 };

/* What a memory fault was. */
struct emu_event_fault {
    uint32_t node;
    uint64_t va;
    bool read_only;
};

/* The id, or 0 if there is no room. Those of signal events are below EMU_EVENTS. */
uint32_t emu_event_create(int type, bool manual);
/* False if there is no such event. Who waits for it waits in vain. */
bool emu_event_destroy(uint32_t id);
/* Those of programs, which signal events are: also false for others. */
bool emu_event_set(uint32_t id);
bool emu_event_reset(uint32_t id);

/* The page of slots, of EMU_EVENTS words: all become empty. */
void emu_event_set_page(uint64_t *page);
bool emu_event_has_page(void);

/* One of the events that somebody waits for. */
struct emu_wait {
    uint32_t id;
    uint64_t age; /* that the caller knows, 0: it does not ask; then, the event's */
    struct emu_event_fault fault;
    int type;
    bool over; /* signalled meanwhile */
};

enum emu_wait_result { EMU_WAIT_DONE, EMU_WAIT_LATE, EMU_WAIT_FAILED, EMU_WAIT_UNKNOWN };
enum { EMU_WAIT_FOREVER = UINT32_MAX };

/* FAILED: one of them was destroyed meanwhile. UNKNOWN: one is not there. */
enum emu_wait_result emu_event_wait(struct emu_wait *waits, uint32_t count, bool all, uint32_t milliseconds);

/* An interrupt of a GPU that signals an event, unless EMU_LOSE loses it; in the thread of the engines. */
void emu_event_interrupt(int gpu, uint32_t id);
/* Raises those that are late. */
void emu_event_advance(void);

/* Tells whoever waits for memory faults about one; false if nobody has such an event. */
bool emu_event_raise_fault(uint32_t node, uint64_t va, bool read_only);

/* An engine was reset; false if nobody has an event for it. */
bool emu_event_raise_reset(void);

#endif
