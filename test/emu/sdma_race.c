/*
 * Races: two operations without an order, of which one writes what the other reads or writes.
 *
 * Within a queue, these give an order:
 *   - TRAP and ATOMIC;
 *   - a POLL that has read the word of an earlier FENCE;
 *   - a FENCE that was written before the program has written the packet, because the program may have seen the FENCE's word;
 *   - a FENCE that was written before the word of a later POLL got its value, for packets after the POLL.
 * An operation is compared with all operations since then, also with ended ones, so that speed has no influence on the result.
 *
 * Between queues, words in memory give an order, and this file does not follow them. So only operations that are under way at
 * the same time are compared: every report is a race, and some races are not reported. Engines of other processes are not
 * checked.
 */
#include "sdma_internal.h"

static bool conflict(const emu_sdma_access_t *a, const emu_sdma_access_t *b)
{
    for (unsigned i = 0; i < SIDES; i++) {
        for (unsigned j = 0; j < SIDES; j++) {
            bool uses = (a->reads | a->writes) & 1u << i && (b->reads | b->writes) & 1u << j;

            if (uses && (a->writes & 1u << i || b->writes & 1u << j) &&
                emu_sdma_region_overlap(&a->side[i], &b->side[j])) {
                return true;
            }
        }
    }
    return false;
}

static bool compare(const emu_sdma_queue_t *q, const emu_sdma_access_t *access, const emu_sdma_queue_t *other,
                    const emu_sdma_access_t *theirs)
{
    bool swaps = access->kind == EMU_SDMA_SWAP && theirs->kind == EMU_SDMA_SWAP;
    emu_sdma_rule_t rule = swaps ? EMU_SDMA_SWAP_TWICE : EMU_SDMA_RACE;

    if (emu_sdma_is_lax(emu_sdma_node_of(q), rule) || !conflict(access, theirs)) {
        return false;
    }
    emu_sdma_complain(q, access->at, rule, "%s against %s of GPU %d engine %d queue %d at byte %llu",
                      emu_sdma_packet_name(access->kind), emu_sdma_packet_name(theirs->kind), other->engine->gpu,
                      other->engine->id, other->ring.id, (unsigned long long)theirs->at);
    return true;
}

/* A FENCE is in order with all operations before it, including FENCEs. */
static bool is_behind(const emu_sdma_access_t *access, const emu_sdma_access_t *theirs)
{
    return access->kind == EMU_SDMA_FENCE && theirs->at < access->at;
}

void emu_sdma_in_order(emu_sdma_queue_t *q, uint64_t at)
{
    unsigned past = q->past < EMU_SDMA_PAST ? q->past : EMU_SDMA_PAST;

    q->past = 0;
    for (unsigned i = 0; i < past; i++) {
        if (q->ended[i].at >= at) {
            q->ended[q->past++] = q->ended[i];
        }
    }
}

/* Stops at the first race. */
void emu_sdma_check_race(emu_sdma_queue_t *q, const emu_sdma_access_t *access)
{
    unsigned past = q->past < EMU_SDMA_PAST ? q->past : EMU_SDMA_PAST;

    for (unsigned i = 0; i < past; i++) {
        if (!is_behind(access, &q->ended[i]) && compare(q, access, q, &q->ended[i])) {
            return;
        }
    }
    for (const emu_sdma_queue_t *other = emu_sdma_node_of(q)->queues; other; other = other->next) {
        for (unsigned i = 0; i < other->ops; i++) {
            const emu_sdma_access_t *theirs = &other->op[i]->access;
            bool ordered = other == q && (theirs == access || is_behind(access, theirs) || is_behind(theirs, access));

            if (!ordered && compare(q, access, other, theirs)) {
                return;
            }
        }
    }
}
