/*
 * Races: operations that nothing puts in order, of which one writes what the other reads or writes.
 *
 * Within a queue TRAP and ATOMIC give an order, and a POLL that has seen the word of a FENCE before it; an operation is
 * compared with all since then, ended or not: whether a race is found does not depend on how fast anything was. Whoever
 * writes a packet after a FENCE has been written may have seen that, so such packets are taken to be in order, too. The same
 * holds for what is behind a POLL if its word gets its value after a FENCE in front of it has been written. Order
 * between queues comes from words in memory that this does not follow, so there only operations that are under way at
 * the same moment are compared: what is reported is a race, but not every race is reported.
 * Engines of other processes are not seen.
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

/* A FENCE is in order with all that is before it, FENCEs among them. */
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

/* One report is enough. */
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
