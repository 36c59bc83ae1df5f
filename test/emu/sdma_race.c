/*
 * Races: operations that nothing puts in order, of which one writes what the other reads or writes.
 *
 * Within a queue only FENCE, TRAP and ATOMIC give an order, so an operation is compared with all since the last of
 * those, ended or not: whether a race is found does not depend on how fast anything was. Order between queues comes
 * from words in memory that this does not follow, so there only operations that are under way at the same moment are
 * compared: what is reported is a race, but not every race is reported.
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

    if (!conflict(access, theirs)) {
        return false;
    }
    emu_sdma_complain(q, access->at, swaps ? EMU_SDMA_SWAP_TWICE : EMU_SDMA_RACE,
                      "%s against %s of GPU %d engine %d queue %d at byte %llu", emu_sdma_packet_name(access->kind),
                      emu_sdma_packet_name(theirs->kind), other->engine->gpu, other->engine->id, other->ring.id,
                      (unsigned long long)theirs->at);
    return true;
}

/* One report is enough. */
void emu_sdma_check_race(emu_sdma_queue_t *q, const emu_sdma_access_t *access)
{
    unsigned past = q->past < EMU_SDMA_PAST ? q->past : EMU_SDMA_PAST;

    for (unsigned i = 0; i < past; i++) {
        if (compare(q, access, q, &q->ended[i])) {
            return;
        }
    }
    for (const emu_sdma_queue_t *other = emu_sdma_node_of(q)->queues; other; other = other->next) {
        for (unsigned i = 0; i < other->ops; i++) {
            if (compare(q, access, other, &other->op[i]->access)) {
                return;
            }
        }
    }
}
