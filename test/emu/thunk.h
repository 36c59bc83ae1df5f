/*
 * The thunk's API, for those who implement it: what <hsakmt.h> declares is exported, and so are the calls of newer thunks below,
 * which its version does not know. Callers that look for those with dlsym find them only in the library that is built with
 * libhsakmt_new.map.
 */
#ifndef EMU_THUNK_H
#define EMU_THUNK_H

#pragma GCC visibility push(default)
#include <hsakmt.h>
#include <stddef.h>

HSAKMT_STATUS hsaKmtCreateQueueExt(HSAuint32 node, HSA_QUEUE_TYPE type, HSAuint32 percentage,
                                   HSA_QUEUE_PRIORITY priority, HSAuint32 engine, void *ring, HSAuint64 bytes,
                                   HsaEvent *event, HsaQueueResource *resource);
HSAKMT_STATUS hsaKmtWaitOnEvent_Ext(HsaEvent *event, HSAuint32 milliseconds, uint64_t *age);
HSAKMT_STATUS hsaKmtWaitOnMultipleEvents_Ext(HsaEvent *wanted[], HSAuint32 count, bool all, HSAuint32 milliseconds,
                                             uint64_t *ages);
HSAKMT_STATUS hsaKmtAllocMemoryAlign(HSAuint32 node, HSAuint64 bytes, HSAuint64 alignment, HsaMemFlags flags,
                                     void **address);
HSAKMT_STATUS hsaKmtAvailableMemory(HSAuint32 node, HSAuint64 *bytes);

/* Ours: writes the statistics of all queues of this process to a file; 0 or -errno. */
int emu_stats_dump(const char *path);

/* For the preloaded shim, in kfd.c. An ioctl on the driver's file by code at `caller`: 0, or an errno. */
int emu_kfd_ioctl(const void *caller, unsigned long request, void *argument);
/* A mapping of the doorbells of a GPU, all of them or none, or NULL. */
void *emu_kfd_map(size_t bytes, uint64_t offset);
#pragma GCC visibility pop

#endif
