/*
 * The command processor: executes the AQL packets that runtimes put into compute queues: barriers on signals, kernels that
 * kernels.c knows, and vendor packets.
 *
 * Producers of a queue ring its doorbell in any order, and the hardware does not mind if a value is less than the one before. A
 * value that is overwritten is not seen here. So a doorbell that has changed wakes the queue, which then runs the packets that are
 * complete, also those behind that value.
 *
 * Packets of one queue run one after another. If a barrier or a kernel has to wait, the queue stays at this packet until the
 * next step. No function here blocks the thread.
 */
#ifndef EMU_AQL_H
#define EMU_AQL_H

#include <stdbool.h>
#include <stdint.h>

struct emu_aql {
    uint32_t node;
    char *ring;
    uint64_t packets;         /* that the ring holds; a power of two */
    uint64_t *read;           /* index of the packet to run next; the queue's owner reads it */
    const uint64_t *doorbell; /* index of the last packet written */
    uint64_t rung;            /* *doorbell, when it was looked at last */
    bool woken;               /* it has changed, and complete packets are left */
    uint64_t began;           /* when the packet at *read was first looked at, 0 if it was not */
    bool dead;
};

enum emu_aql_state { EMU_AQL_IDLE, EMU_AQL_BLOCKED, EMU_AQL_PROGRESSED };

/* Runs at most this many packets. The caller holds the lock of the memory table for reading. */
enum emu_aql_state emu_aql_step(struct emu_aql *queue, int packets);

#endif
