/*
 * Calls in which some ranks have device memory and others host memory.
 *
 * A rank with host memory alone enters a call with its data, and the cores of all ranks carry it out: ranks with device memory
 * first copy all of it to the host. Large blocks are better off by slots (by_slots.c), where the devices copy pieces at the speed
 * of their links. For that the rank with host memory has to wait for all ranks before anything begins, as the others do. It does
 * not know what memory they have. So it goes by what it has seen:
 *
 *     another rank had device memory       The next DMA_JOINS large calls in host memory join: they enter with DMA_SIGN_JOINS and
 *     in a call in host memory             without data. So do those of the communicators that the process makes later.
 *     a call has joined, and no rank       One less of them joins, and the cores carry the call out.
 *     had device memory
 *
 * When all ranks have entered, their descriptors say the same to all of them:
 *
 *     a rank has entered with data         the host plan, as without this
 *     else, a rank has joined              by slots if any rank has device memory, or else the host plan
 *
 * A rank that has joined needs no GPU runtime: its cores copy into its slots and out of its peers'.
 */
#ifndef DMA_DEVICE_JOIN_H
#define DMA_DEVICE_JOIN_H

#include "core/comm.h"
#include "device/decide.h"

/* dma_memory_t.join */
dma_status_t dma_device_join(dma_comm_t *comm, dma_task_t *task, const dma_call_t *call);

/* With the communicator's lock. All ranks have entered: shall later calls join, too? */
void dma_device_note_census(dma_comm_t *comm, const dma_task_t *task, const dma_census_t *census);

#endif
