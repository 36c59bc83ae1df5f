/* AQL packets; see aql.h. */
#include "aql.h"

#include "clock.h"
#include "event.h"
#include "fault.h"
#include "kernels.h"
#include "process.h"

#include <hsa/amd_hsa_signal.h>
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>

enum { PACKET = 64, DEPENDENCIES = 5 };

static int64_t signal_value(hsa_signal_t signal)
{
    return __atomic_load_n(&((amd_signal_t *)signal.handle)->value, __ATOMIC_ACQUIRE);
}

/* A signal without a handle is ignored. */
static bool barrier_open(const hsa_barrier_and_packet_t *packet, bool all)
{
    int named = 0, reached = 0;
    for (int i = 0; i < DEPENDENCIES; i++)
        if (packet->dep_signal[i].handle) {
            named++;
            reached += signal_value(packet->dep_signal[i]) == 0;
        }
    return named == 0 || (all ? reached == named : reached > 0);
}

static bool value_open(const hsa_amd_barrier_value_packet_t *packet)
{
    if (!packet->signal.handle)
        return true;
    int64_t value = signal_value(packet->signal) & packet->mask;
    switch (packet->cond) {
    case HSA_SIGNAL_CONDITION_EQ:
        return value == packet->value;
    case HSA_SIGNAL_CONDITION_NE:
        return value != packet->value;
    case HSA_SIGNAL_CONDITION_LT:
        return value < packet->value;
    default:
        return value >= packet->value;
    }
}

/* Order: the value of the signal, then the mailbox of the event, then the interrupt. */
static void complete(int gpu, hsa_signal_t signal, uint64_t began)
{
    if (!signal.handle)
        return;
    amd_signal_t *at = (amd_signal_t *)signal.handle;
    uint64_t mailbox = at->event_mailbox_ptr;
    uint32_t event = at->event_id;
    at->start_ts = began / EMU_CLOCK_GPU_NS;
    at->end_ts = emu_clock_ns() / EMU_CLOCK_GPU_NS;
    /* A waiting thread may free the signal as soon as it has this value. So this is the last access to the signal. */
    __atomic_fetch_sub(&at->value, 1, __ATOMIC_ACQ_REL);
    if (mailbox) {
        __atomic_store_n((uint64_t *)mailbox, event, __ATOMIC_RELEASE);
        emu_event_interrupt(gpu, event);
    }
}

static enum emu_kernel_state run(struct emu_aql *queue, const void *packet, int type)
{
    const hsa_amd_vendor_packet_header_t *vendor = packet;
    switch (type) {
    case HSA_PACKET_TYPE_KERNEL_DISPATCH:
        return emu_kernel_run(queue->node, packet);
    case HSA_PACKET_TYPE_BARRIER_AND:
    case HSA_PACKET_TYPE_BARRIER_OR:
        return barrier_open(packet, type == HSA_PACKET_TYPE_BARRIER_AND) ? EMU_KERNEL_DONE : EMU_KERNEL_WAITS;
    case HSA_PACKET_TYPE_VENDOR_SPECIFIC:
        /* The other kind of vendor packet invalidates caches, which are not modelled. */
        if (vendor->AmdFormat == HSA_AMD_PACKET_TYPE_BARRIER_VALUE)
            return value_open(packet) ? EMU_KERNEL_DONE : EMU_KERNEL_WAITS;
        return EMU_KERNEL_DONE;
    default:
        emu_fault_violation(queue->node, 0, "aql-packet", "AQL packet of type %d on node %u", type, queue->node);
        return EMU_KERNEL_FAULT;
    }
}

/* May the packet at this index run? A packet is complete when its first word is stored. Behind the doorbell, where nobody need have
 * made the packets invalid, 0 is no packet. */
static bool is_due(struct emu_aql *queue, const char *packet, uint64_t index)
{
    uint64_t doorbell = __atomic_load_n(queue->doorbell, __ATOMIC_ACQUIRE);
    uint32_t word = __atomic_load_n((const uint32_t *)packet, __ATOMIC_ACQUIRE);
    bool rung = (int64_t)(doorbell - index) >= 0;
    if (doorbell != queue->rung) {
        queue->rung = doorbell;
        queue->woken = true;
    }
    if ((word & 0xff) == HSA_PACKET_TYPE_INVALID || (!rung && word == 0)) {
        queue->woken = queue->woken && rung;
        return false;
    }
    return rung || queue->woken;
}

enum emu_aql_state emu_aql_step(struct emu_aql *queue, int packets)
{
    enum emu_aql_state state = EMU_AQL_IDLE;
    while (!queue->dead && packets-- > 0) {
        uint64_t index = *queue->read;
        char *packet = queue->ring + index % queue->packets * PACKET;
        uint16_t *header = (uint16_t *)packet;
        if (!is_due(queue, packet, index))
            return state;
        int type = __atomic_load_n(header, __ATOMIC_ACQUIRE) & 0xff;
        if (!queue->began)
            queue->began = emu_clock_ns();
        enum emu_kernel_state done = run(queue, packet, type);
        if (done == EMU_KERNEL_WAITS)
            return state == EMU_AQL_PROGRESSED ? state : EMU_AQL_BLOCKED;
        queue->dead = done == EMU_KERNEL_FAULT;
        if (queue->dead)
            return EMU_AQL_PROGRESSED;
        /* Every kind of packet has its completion signal in the last eight bytes. */
        hsa_signal_t completion = ((const hsa_barrier_and_packet_t *)packet)->completion_signal;
        __atomic_store_n(header, HSA_PACKET_TYPE_INVALID, __ATOMIC_RELEASE);
        complete(emu_gpu_of(queue->node), completion, queue->began);
        queue->began = 0;
        __atomic_store_n(queue->read, index + 1, __ATOMIC_RELEASE);
        state = EMU_AQL_PROGRESSED;
    }
    return state;
}
