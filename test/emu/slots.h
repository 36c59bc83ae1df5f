/*
 * Which process holds which SDMA queue of the node's engines: eight per engine, for all processes together.
 *
 * The table is a file in the node's folder that all processes map; a slot holds the stamp of its process (pid and start time),
 * taken and given back by one compare-and-swap. The queues of a process that is gone are free again when the next process
 * comes, and when somebody looks for one and finds none. Without a folder the process has the node to itself and the table
 * is private.
 *
 * As the driver does it, host-facing engines and those of the links are a pool each; queue number i of a pool is on engine
 * i modulo the engines of the pool, and the lowest free number is taken.
 */
#ifndef EMU_SLOTS_H
#define EMU_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

enum { EMU_ANY_ENGINE = -1 };

/* Takes a slot of a GPU: on one engine, or on any of the pool but those of a mask. Returns the slot, or -1 if none is free. */
int emu_slot_take(int gpu, bool xgmi, int engine, uint32_t without);
void emu_slot_release(int gpu, int slot);
int emu_slot_engine(int slot);

#endif
