/* Faults of engines: how they are reported, and who learns of them. */
#ifndef EMU_FAULT_H
#define EMU_FAULT_H

#include <stdbool.h>
#include <stdint.h>

/*
 * A GPU accessed what it must not. Whoever waits for memory faults is told; the runtime prints it and ends the process.
 * Nobody waits: a strict node ends it.
 */
void emu_fault_raise(uint32_t node, uint64_t va, bool read_only);

/* A violation, and the fault that makes sure that nobody passes over it. */
void emu_fault_violation(uint32_t node, uint64_t va, const char *rule, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
