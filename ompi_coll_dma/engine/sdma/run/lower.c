/* Lowering of queue programs: see lower.h. */
#include "engine/sdma/run/lower.h"

#include "engine/sdma/hw/packet.h"

/* Copies of one operation are built in groups of at most this many packets: far below half of a ring, so that a
 * group fits soon. */
#define GROUP_PACKETS 64

static const dma_shape_t *shape_of(const dma_run_t *run, const dma_operand_t *o)
{
    return o->base == DMA_BASE_SEND ? run->shape : run->targets[o->rank].shape;
}

static dma_location_t place(const dma_run_t *run, const dma_operand_t *o, uint64_t skip)
{
    const dma_shape_t *shape = shape_of(run, o);
    uint64_t before = o->base == DMA_BASE_SEND ? run->shape_skip : run->targets[o->rank].skip;

    return (dma_location_t){.addr = dma_run_address(run, o, 0) - o->offset,
                            .skip = before + o->offset + skip,
                            .shape = shape ? *shape : (dma_shape_t){0}};
}

static bool has_shape(const dma_run_t *run, const dma_op_t *op)
{
    return shape_of(run, &op->src) || shape_of(run, &op->dst[0]) ||
           (op->code == DMA_OP_COPY2 && shape_of(run, &op->dst[1]));
}

/* A copy to one or two destinations. The second copy begins after the first is completely in the ring. */
static dma_status_t copy_shaped(const dma_run_t *run, const dma_op_t *op, const dma_lower_target_t *to, uint64_t skip,
                                uint64_t bytes, dma_lower_t *at)
{
    enum { NOT_BEGUN, FIRST, SECOND };
    dma_location_t src = place(run, &op->src, skip);
    dma_status_t status;

    if (at->done == NOT_BEGUN) {
        dma_location_t dst = place(run, &op->dst[0], skip);

        dma_shaped_begin(to->shaped, &dst, &src, bytes);
        at->done = FIRST;
    }
    status = dma_shaped_put(to->shaped, to->gen, to->queue);
    if (status == DMA_OK && op->code == DMA_OP_COPY2 && at->done == FIRST) {
        dma_location_t dst = place(run, &op->dst[1], skip);

        dma_shaped_begin(to->shaped, &dst, &src, bytes);
        at->done = SECOND;
        status = dma_shaped_put(to->shaped, to->gen, to->queue);
    }
    return status;
}

/* The bytes of the next group: at most `most`, from `done` on. */
static uint64_t piece(uint64_t bytes, uint64_t done, uint64_t most)
{
    return bytes - done < most ? bytes - done : most;
}

static dma_status_t copy(const dma_lower_target_t *to, uint64_t dst, uint64_t src, uint64_t bytes, dma_lower_t *at)
{
    while (at->done < bytes) {
        uint64_t n = piece(bytes, at->done, GROUP_PACKETS * to->gen->max_copy);
        uint32_t packets = (uint32_t)dma_gen_pieces(n, to->gen->max_copy), *p;
        dma_status_t status = dma_ring_reserve(&to->queue->ring, packets * DMA_PACKET_COPY_DWORDS, packets, &p);

        if (status != DMA_OK) {
            return status;
        }
        dma_packet_copy(p, to->gen, dst + at->done, src + at->done, n);
        dma_ring_moves(&to->queue->ring, n);
        at->done += n;
    }
    return DMA_OK;
}

static dma_status_t copy2(const dma_lower_target_t *to, uint64_t dst0, uint64_t dst1, uint64_t src, uint64_t bytes,
                          dma_lower_t *at)
{
    bool fits = to->bcsts && !dma_gen_broadcast_unfit(to->gen, dst0, dst1);

    while (at->done < bytes) {
        uint64_t n = piece(bytes, at->done, GROUP_PACKETS * to->gen->max_copy), d = at->done;
        uint32_t packets = (uint32_t)dma_gen_pieces(n, to->gen->max_copy), *p;
        uint32_t dwords = packets * (fits ? DMA_PACKET_BROADCAST_DWORDS : 2 * DMA_PACKET_COPY_DWORDS);
        dma_status_t status = dma_ring_reserve(&to->queue->ring, dwords, fits ? packets : 2 * packets, &p);

        if (status != DMA_OK) {
            return status;
        }
        dma_ring_moves(&to->queue->ring, 2 * n);
        if (fits) {
            dma_packet_broadcast(p, to->gen, dst0 + d, dst1 + d, src + d, n);
        } else {
            p += dma_packet_copy(p, to->gen, dst0 + d, src + d, n);
            dma_packet_copy(p, to->gen, dst1 + d, src + d, n);
        }
        at->done += n;
    }
    return DMA_OK;
}

/* How many bytes of an exchange swap packets can do: all except a tail, or none. */
static uint64_t swappable(const dma_lower_target_t *to, uint64_t a, uint64_t b, uint64_t bytes)
{
    uint64_t whole = to->gen->swap_align ? bytes / to->gen->swap_align * to->gen->swap_align : 0;

    return to->swaps && whole && !dma_gen_swap_unfit(to->gen, a, b, whole) ? whole : 0;
}

/* An exchange through the queue's temporary memory. The last drain keeps the next piece from overwriting `temp`. */
static dma_status_t exchange(const dma_lower_target_t *to, uint64_t a, uint64_t b, uint64_t bytes, dma_lower_t *at)
{
    const uint32_t dwords = 3 * (DMA_PACKET_COPY_DWORDS + DMA_PACKET_FENCE_DWORDS + DMA_PACKET_POLL_DWORDS);
    uint64_t most = DMA_QUEUE_TEMP < to->gen->max_copy ? DMA_QUEUE_TEMP : to->gen->max_copy;
    dma_queue_t *queue = to->queue;

    while (at->done < bytes) {
        uint64_t n = piece(bytes, at->done, most), d = at->done;
        uint32_t *p;
        dma_status_t status = dma_ring_reserve(&queue->ring, dwords, 9, &p);

        if (status != DMA_OK) {
            return status;
        }
        dma_ring_moves(&queue->ring, 3 * n);
        p += dma_packet_copy(p, to->gen, queue->temp, a + d, n);
        p += dma_drain(p, queue);
        p += dma_packet_copy(p, to->gen, a + d, b + d, n);
        p += dma_drain(p, queue);
        p += dma_packet_copy(p, to->gen, b + d, queue->temp, n);
        dma_drain(p, queue);
        at->done += n;
    }
    return DMA_OK;
}

/* The same where the CPU drains. */
static dma_status_t exchange_in_steps(const dma_lower_target_t *to, uint64_t a, uint64_t b, uint64_t bytes,
                                      dma_lower_t *at)
{
    enum { STEPS = 6 }; /* three copies, with a drain behind each */
    uint64_t most = DMA_SHAPED_TEMP < to->gen->max_copy ? DMA_SHAPED_TEMP : to->gen->max_copy;
    uint64_t temp = to->shaped->temp;

    for (; at->done < bytes; at->step = 0) {
        uint64_t n = piece(bytes, at->done, most), d = at->done;
        const uint64_t dst[] = {temp, a + d, b + d}, src[] = {a + d, b + d, temp};

        for (; at->step < STEPS; at->step++) {
            uint32_t k = at->step / 2, *p;
            dma_status_t status = at->step % 2 ? dma_drain_put(&at->drain, to->gen, to->queue)
                                               : dma_ring_reserve(&to->queue->ring, DMA_PACKET_COPY_DWORDS, 1, &p);

            if (status != DMA_OK) {
                return status;
            }
            if (at->step % 2 == 0) {
                dma_packet_copy(p, to->gen, dst[k], src[k], n);
                dma_ring_moves(&to->queue->ring, n);
            }
        }
        at->done += n;
    }
    return DMA_OK;
}

static dma_status_t swap(const dma_lower_target_t *to, uint64_t a, uint64_t b, uint64_t bytes, dma_lower_t *at)
{
    uint64_t whole = swappable(to, a, b, bytes);

    while (at->done < whole) {
        uint64_t n = piece(whole, at->done, GROUP_PACKETS * to->gen->max_swap);
        uint32_t packets = (uint32_t)dma_gen_pieces(n, to->gen->max_swap), *p;
        dma_status_t status = dma_ring_reserve(&to->queue->ring, packets * DMA_PACKET_SWAP_DWORDS, packets, &p);

        if (status != DMA_OK) {
            return status;
        }
        dma_packet_swap(p, to->gen, a + at->done, b + at->done, n);
        dma_ring_moves(&to->queue->ring, 2 * n);
        at->done += n;
    }
    return to->gen->has & DMA_GEN_POLL ? exchange(to, a, b, bytes, at) : exchange_in_steps(to, a, b, bytes, at);
}

static dma_status_t signal_line(const dma_run_t *run, const dma_lower_target_t *to)
{
    const uint32_t stamp = to->stamps ? DMA_PACKET_FENCE_DWORDS + DMA_PACKET_TIMESTAMP_DWORDS : 0;
    uint32_t *p;
    dma_status_t status = dma_ring_reserve(&to->queue->ring, stamp + DMA_PACKET_FENCE_DWORDS, to->stamps ? 3 : 1, &p);

    if (status == DMA_OK) {
        if (to->stamps) {
            p += dma_packet_fence(p, to->stamps + offsetof(dma_stamps_t, landed), run->epoch);
            p += dma_packet_timestamp(p, to->stamps + offsetof(dma_stamps_t, end));
        }
        dma_packet_fence(p, to->line, run->epoch);
    }
    return status;
}

static dma_status_t lower(const dma_run_t *run, const dma_op_t *op, const dma_lower_target_t *to, dma_lower_t *at)
{
    uint64_t skip, bytes = dma_run_length(run, &op->len, &skip);
    bool copies = op->code == DMA_OP_COPY || op->code == DMA_OP_COPY2;

    if (copies && has_shape(run, op)) {
        return copy_shaped(run, op, to, skip, bytes, at);
    }
    switch (op->code) {
    case DMA_OP_COPY:
        return copy(to, dma_run_address(run, &op->dst[0], skip), dma_run_address(run, &op->src, skip), bytes, at);
    case DMA_OP_COPY2:
        return copy2(to, dma_run_address(run, &op->dst[0], skip), dma_run_address(run, &op->dst[1], skip),
                     dma_run_address(run, &op->src, skip), bytes, at);
    case DMA_OP_SWAP:
        return swap(to, dma_run_address(run, &op->dst[0], skip), dma_run_address(run, &op->src, skip), bytes, at);
    case DMA_OP_SIGNAL:
        return signal_line(run, to);
    default: /* a wait */
        return DMA_OK;
    }
}

static bool goes_by_temp(const dma_run_t *run, const dma_op_t *op, uint64_t skip, uint64_t bytes)
{
    dma_location_t src = place(run, &op->src, skip);

    for (int i = 0; i < (op->code == DMA_OP_COPY2 ? 2 : 1); i++) {
        dma_location_t dst = place(run, &op->dst[i], skip);

        if (dma_shaped_by_temp(&dst, &src, bytes)) {
            return true;
        }
    }
    return false;
}

uint32_t dma_lower_temps(const dma_run_t *run, const dma_prog_t *prog, const dma_lower_target_t *to)
{
    uint32_t temps = 0;

    for (uint32_t i = 0; i < prog->nops; i++) {
        const dma_op_t *op = &prog->ops[i];
        uint64_t skip, bytes = dma_run_length(run, &op->len, &skip);

        if (op->code == DMA_OP_SWAP && swappable(to, dma_run_address(run, &op->dst[0], skip),
                                                 dma_run_address(run, &op->src, skip), bytes) != bytes) {
            temps |= to->gen->has & DMA_GEN_POLL ? DMA_LOWER_QUEUE_TEMP : DMA_LOWER_OWN_TEMP;
        }
        if ((op->code == DMA_OP_COPY || op->code == DMA_OP_COPY2) && has_shape(run, op) &&
            goes_by_temp(run, op, skip, bytes)) {
            temps |= DMA_LOWER_OWN_TEMP;
        }
    }
    return temps;
}

/* The time of the beginning. */
static dma_status_t stamp_begin(const dma_lower_target_t *to, dma_lower_t *at)
{
    uint32_t *p;
    dma_status_t status;

    if (!to->stamps || at->stamped) {
        return DMA_OK;
    }
    status = dma_ring_reserve(&to->queue->ring, DMA_PACKET_TIMESTAMP_DWORDS, 1, &p);
    if (status == DMA_OK) {
        dma_packet_timestamp(p, to->stamps + offsetof(dma_stamps_t, begin));
        at->stamped = true;
    }
    return status;
}

dma_status_t dma_lower_program(const dma_run_t *run, const dma_prog_t *prog, const dma_lower_target_t *to,
                               dma_lower_t *at)
{
    for (; at->op < prog->nops; at->op++, at->done = 0) {
        dma_status_t status = stamp_begin(to, at);

        status = status == DMA_OK ? lower(run, &prog->ops[at->op], to, at) : status;

        if (status != DMA_OK) {
            return status;
        }
    }
    return DMA_OK;
}

dma_status_t dma_lower_range(const dma_run_t *run, const dma_op_t *op, const dma_lower_target_t *to, uint64_t offset,
                             uint64_t bytes, dma_lower_t *at)
{
    uint64_t src = dma_run_address(run, &op->src, offset), dst = dma_run_address(run, &op->dst[0], offset);

    return op->code == DMA_OP_COPY2 ? copy2(to, dst, dma_run_address(run, &op->dst[1], offset), src, bytes, at)
                                    : copy(to, dst, src, bytes, at);
}

bool dma_lower_is_plain(const dma_run_t *run, const dma_prog_t *prog)
{
    for (uint32_t i = 0; i < prog->nops; i++) {
        const dma_op_t *op = &prog->ops[i];
        bool copies = op->code == DMA_OP_COPY || op->code == DMA_OP_COPY2;

        if (copies ? op->len.part != DMA_WHOLE || has_shape(run, op)
                   : op->code != DMA_OP_WAIT && op->code != DMA_OP_SIGNAL) {
            return false;
        }
    }
    return true;
}
