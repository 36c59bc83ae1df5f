/*
 * The table of SDMA queues of the node's engines: eight per engine, for all processes together.
 *
 * The table is a file in the node's folder, which all processes map. A slot has the pid and start time of its process. It is
 * taken and freed by a compare-and-swap. The slots of a process that has ended are freed when another process starts, and when
 * a process finds no free slot. Without a folder, the process has a node of its own, and the table is private.
 *
 * As in the driver, host-facing engines are one pool and engines of links another. Queue number i of a pool is on engine i
 * modulo the number of engines in the pool. The lowest free number is taken.
 */
#ifndef EMU_SLOTS_H
#define EMU_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

enum { EMU_ANY_ENGINE = -1 };

/* Takes a slot of a GPU on one engine, or on any engine of the pool except those in a mask. Returns the slot, or -1: none is
 * free. */
int emu_slot_take(int gpu, bool xgmi, int engine, uint32_t without);
void emu_slot_release(int gpu, int slot);
int emu_slot_engine(int slot);

#endif
