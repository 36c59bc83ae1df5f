/* Network steps of the plan interpreter. They complete whenever they like, in order per pair. See libinterp.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "libinterp_machine.h"

bool net_post(machine_t *m, queue_t *q, const dma_op_t *op)
{
    net_step_t *s = calloc(1, sizeof(*s));
    bool send = op->code == DMA_OP_SEND;

    m->nets = realloc(m->nets, (m->nnets + 1) * sizeof(*m->nets));
    m->nets[m->nnets++] = s;
    *s = (net_step_t){.id = ++m->next_net,
                      .queue = q,
                      .op = op,
                      .send = send,
                      .value = world_flag_base(&m->w, q->who.call, &op->flag, q->who.rank) + op->value};
    s->value += op->flags & DMA_OP_CHUNKED ? (int64_t)q->who.trip : 0;
    s->n = op_bytes(m, q, op);
    s->clock = world_clock(&m->w);
    memcpy(s->clock, q->who.clock, m->w.ncomp * sizeof(uint32_t));
    world_part(&m->w, q->who.call, q->who.rank)->nets++;
    actor_t who = q->who;
    q->who.comp = world_comp_net(&m->w, q->who.rank);
    q->who.net = s->id;
    bool ok = operand(m, q, op, send ? &op->src : &op->dst[0], s->n, !send, &s->region, &s->at) != NULL;
    q->who.comp = who.comp;
    q->who.net = 0;
    return ok;
}

static bool net_over(machine_t *m, net_step_t *s)
{
    uint32_t comp = world_comp_net(&m->w, s->queue->who.rank);

    s->over = true;
    region_landed(&m->w, s->region, s->id, m->w.ticks[comp]);
    s->clock[comp] = ++m->w.ticks[comp];
    world_part(&m->w, s->queue->who.call, s->queue->who.rank)->nets--;
    return flag_set(m, s->queue, s->op, s->value, s->clock);
}

/* The receive that a send meets: the n-th of the pair meets the n-th. */
static net_step_t *net_partner(machine_t *m, const net_step_t *send)
{
    int src = send->queue->who.rank, dst = send->op->flag.rank;
    uint32_t nth = 0;

    for (uint32_t i = 0; m->nets[i] != send; i++) {
        nth += m->nets[i]->send && m->nets[i]->queue->who.rank == src && m->nets[i]->op->flag.rank == dst;
    }
    for (uint32_t i = 0; i < m->nnets; i++) {
        net_step_t *r = m->nets[i];
        if (!r->send && r->queue->who.rank == dst && r->op->flag.rank == src && nth-- == 0) {
            return r;
        }
    }
    return NULL;
}

step_t net_step(machine_t *m)
{
    uint32_t first = world_random(&m->w, m->nnets);

    for (uint32_t k = 0; k < m->nnets; k++) {
        net_step_t *s = m->nets[(first + k) % m->nnets], *r;
        if (!s->send) {
            continue;
        }
        if (!s->captured && world_random(&m->w, 2)) { /* eager: the sender is done with its buffer */
            s->captured = true;
            s->data = malloc(s->n + 1);
            memcpy(s->data, s->region->data + s->at, s->n);
            return net_over(m, s) ? STEP_RAN : STEP_FAILED;
        }
        r = net_partner(m, s);
        if (!r || r->over) {
            continue;
        }
        if (r->n != s->n) {
            world_fail(&m->w, INTERP_NET, "rank %d sends %" PRIu64 " bytes, rank %d expects %" PRIu64,
                       s->queue->who.rank, s->n, r->queue->who.rank, r->n);
            return STEP_FAILED;
        }
        memcpy(r->region->data + r->at, s->captured ? s->data : s->region->data + s->at, s->n);
        world_join(&m->w, r->clock, s->clock);
        s->captured = true;
        return (s->over || net_over(m, s)) && net_over(m, r) ? STEP_RAN : STEP_FAILED;
    }
    return STEP_BLOCKED;
}
