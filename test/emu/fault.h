/* Reports faults of engines to the process. */
#ifndef EMU_FAULT_H
#define EMU_FAULT_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Reports an access that is not allowed: signals the event for memory faults. A runtime that waits for this event prints the
 * fault and ends the process. Without such an event, a strict node ends the process.
 */
void emu_fault_raise(uint32_t node, uint64_t va, bool read_only);

/* Reports a violation and also raises the fault, so that the process ends. */
void emu_fault_violation(uint32_t node, uint64_t va, const char *rule, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
