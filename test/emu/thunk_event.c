/* The thunk's calls for events, over those of event.h. */
#include "api.h"
#include "event.h"
#include "memory.h"

#include <pthread.h>
#include <stdlib.h>

enum { MOST = 256 }; /* events of one wait */

static uint64_t *mailboxes; /* one per event */

static void make_mailboxes(void)
{
    mailboxes = emu_memory_internal(EMU_EVENTS * sizeof *mailboxes);
}

HSAKMT_STATUS hsaKmtCreateEvent(HsaEventDescriptor *descriptor, bool manual, bool signaled, HsaEvent **out)
{
    EMU_API_ENTER();
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_mailboxes);
    HsaEvent *event = calloc(1, sizeof *event);
    if (!event || !mailboxes) {
        free(event);
        return HSAKMT_STATUS_NO_MEMORY;
    }
    uint32_t id = emu_event_create((int)descriptor->EventType, manual);
    if (id == 0) {
        free(event);
        return HSAKMT_STATUS_OUT_OF_RESOURCES;
    }
    event->EventId = id;
    event->EventData.EventType = descriptor->EventType;
    event->EventData.EventData.SyncVar = descriptor->SyncVar;
    event->EventData.HWData1 = id;
    if (descriptor->EventType == HSA_EVENTTYPE_SIGNAL)
        event->EventData.HWData2 = (uintptr_t)&mailboxes[id];
    if (signaled)
        emu_event_set(id);
    *out = event;
    return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtDestroyEvent(HsaEvent *event)
{
    EMU_API_ENTER();
    if (!event)
        return HSAKMT_STATUS_INVALID_HANDLE;
    emu_event_destroy(event->EventId);
    free(event);
    return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtSetEvent(HsaEvent *event)
{
    EMU_API_ENTER();
    if (!event)
        return HSAKMT_STATUS_INVALID_HANDLE;
    emu_event_set(event->EventId);
    return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtResetEvent(HsaEvent *event)
{
    EMU_API_ENTER();
    if (!event)
        return HSAKMT_STATUS_INVALID_HANDLE;
    emu_event_reset(event->EventId);
    return HSAKMT_STATUS_SUCCESS;
}

/* Stores the description of a fault in the event whose wait it has ended. */
static void set_fault(HsaEvent *event, const struct emu_event_fault *fault)
{
    HsaMemoryAccessFault *to = &event->EventData.EventData.MemoryAccessFault;
    *to = (HsaMemoryAccessFault){
        .NodeId = fault->node, .VirtualAddress = fault->va, .Flags = HSA_EVENTID_MEMORY_FATAL_PROCESS};
    to->Failure.NotPresent = !fault->read_only;
    to->Failure.ReadOnly = fault->read_only;
}

HSAKMT_STATUS hsaKmtWaitOnMultipleEvents(HsaEvent *wanted[], HSAuint32 count, bool all, HSAuint32 milliseconds)
{
    EMU_API_ENTER();
    struct emu_wait waits[MOST] = {{0}};
    if (!wanted || count == 0 || count > MOST)
        return HSAKMT_STATUS_INVALID_HANDLE;
    for (HSAuint32 i = 0; i < count; i++)
        waits[i].id = wanted[i]->EventId;
    /* ROCr also passes infinite - 1 and means infinite. */
    enum emu_wait_result result = emu_event_wait(
        waits, count, all, milliseconds >= HSA_EVENTTIMEOUT_INFINITE - 1 ? EMU_WAIT_FOREVER : milliseconds);
    for (HSAuint32 i = 0; result == EMU_WAIT_DONE && i < count; i++)
        if (waits[i].over && waits[i].type == EMU_EVENT_MEMORY)
            set_fault(wanted[i], &waits[i].fault);
    return result == EMU_WAIT_DONE   ? HSAKMT_STATUS_SUCCESS
           : result == EMU_WAIT_LATE ? HSAKMT_STATUS_WAIT_TIMEOUT
                                     : HSAKMT_STATUS_ERROR;
}

HSAKMT_STATUS hsaKmtWaitOnEvent(HsaEvent *event, HSAuint32 milliseconds)
{
    return event ? hsaKmtWaitOnMultipleEvents(&event, 1, true, milliseconds) : HSAKMT_STATUS_INVALID_HANDLE;
}

HSAKMT_STATUS hsaKmtQueryEventState(HsaEvent *event)
{
    return hsaKmtWaitOnEvent(event, HSA_EVENTTIMEOUT_IMMEDIATE);
}
