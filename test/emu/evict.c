/* Evictions; see evict.h. */
#include "evict.h"

#include "sdma_internal.h"

bool emu_evicted(struct emu_evict *evict, uint64_t now)
{
    if (evict->every_ns == 0)
        return false;
    if (now < evict->until)
        return true;
    if (evict->next == 0)
        evict->next = now + 1 + emu_sdma_below(&evict->random, 2 * evict->every_ns);
    if (now < evict->next)
        return false;
    evict->count++;
    evict->until = now + 1 + emu_sdma_below(&evict->random, evict->most_ns);
    evict->next = 0;
    return true;
}
