/* The kernel's calls for events, over those of event.h; see kfd.h. */
#include "kfd.h"

#include "config.h"
#include "event.h"

#include <errno.h>
#include <stdlib.h>

enum { COMPLETE = 0, TIMEOUT = 1, FAIL = 2, AGES_MINOR = 14, MOST = 4096 };

/* The first caller passes memory for the page of slots, because the kernel makes none on a discrete GPU. */
int emu_kfd_create_event(struct kfd_create_event *args)
{
    if (args->page) {
        void *page = emu_kfd_memory(args->page, EMU_EVENTS * sizeof(uint64_t));
        if (!page || emu_event_has_page())
            return EINVAL;
        emu_event_set_page(page);
        emu_kfd_keep(args->page);
    }
    bool signals = args->type == EMU_EVENT_SIGNAL || args->type == EMU_EVENT_DEBUG;
    if (signals && !emu_event_has_page())
        return EINVAL;
    args->id = emu_event_create((int)args->type, !args->auto_reset);
    if (args->id == 0)
        return ENOSPC;
    if (signals) {
        args->page = KFD_OFFSET_EVENTS;
        args->trigger = args->slot = args->id;
    }
    return 0;
}

static void tell(struct kfd_event_data *data, const struct emu_wait *wait)
{
    if (wait->type == EMU_EVENT_MEMORY) {
        data->fault.not_present = !wait->fault.read_only;
        data->fault.read_only = wait->fault.read_only;
        data->fault.no_execute = data->fault.imprecise = data->fault.error_type = 0;
        data->fault.va = wait->fault.va;
        data->fault.gpu_id = emu_kfd_gpu_id(wait->fault.node);
    } else if (wait->type == EMU_EVENT_HW_EXCEPTION) {
        data->reset.reset_type = data->reset.reset_cause = data->reset.memory_lost = 0;
        data->reset.gpu_id = emu_kfd_gpu_id(1);
    } else if (wait->type == EMU_EVENT_SIGNAL && emu_config()->kfd_minor >= AGES_MINOR && data->age) {
        data->age = wait->age;
    }
}

int emu_kfd_wait_events(struct kfd_wait_events *args)
{
    struct kfd_event_data *data = (struct kfd_event_data *)(uintptr_t)args->events;
    if (args->n_events == 0 || args->n_events > MOST)
        return EINVAL;
    struct emu_wait *waits = calloc(args->n_events, sizeof *waits);
    if (!waits)
        return ENOMEM;
    for (uint32_t i = 0; i < args->n_events; i++) {
        waits[i].id = data[i].id;
        /* For other events the kernel writes its results here. */
        if (data[i].id < EMU_EVENTS && emu_config()->kfd_minor >= AGES_MINOR)
            waits[i].age = data[i].age;
    }
    enum emu_wait_result result = emu_event_wait(waits, args->n_events, args->all, args->milliseconds);
    for (uint32_t i = 0; result == EMU_WAIT_DONE && i < args->n_events; i++)
        if (waits[i].over)
            tell(&data[i], &waits[i]);
    free(waits);
    args->result = result == EMU_WAIT_DONE ? COMPLETE : result == EMU_WAIT_LATE ? TIMEOUT : FAIL;
    return result == EMU_WAIT_FAILED ? EIO : result == EMU_WAIT_UNKNOWN ? EINVAL : 0;
}
