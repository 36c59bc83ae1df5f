/*
 * Events: what a GPU interrupt wakes. Each has a state, set by a signal and cleared by the wait that it ends unless it is a
 * manual one, and an age, which every signal raises: a waiter that has seen an older age does not sleep, so that two may wait
 * for one event that resets itself and neither misses a signal.
 *
 * A signal event has a mailbox, a word in GPU-visible memory; an engine writes there and raises an interrupt with the event's id.
 */
#ifndef EMU_EVENT_H
#define EMU_EVENT_H

#include <stdbool.h>
#include <stdint.h>

void emu_event_signal(uint32_t id);

/* An interrupt of a GPU that signals an event, unless EMU_LOSE loses it; in the thread of the engines. */
void emu_event_interrupt(int gpu, uint32_t id);
/* Raises those that are late. */
void emu_event_advance(void);

/* Tells whoever waits for memory faults about one; false if nobody has such an event. */
bool emu_event_fault(uint32_t node, uint64_t va, bool read_only);

/* An engine was reset; false if nobody has an event for it. */
bool emu_event_reset(void);

#endif
