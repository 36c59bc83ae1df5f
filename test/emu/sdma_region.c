/*
 * Finds whether two regions share bytes. This is exact for rectangles, too: two columns of a matrix share no bytes, although
 * their address ranges overlap.
 */
#include "sdma_internal.h"

uint64_t emu_sdma_region_extent(const emu_sdma_region_t *r)
{
    return (r->slices - 1) * r->slice_pitch + (r->rows - 1) * r->pitch + r->row_bytes;
}

/* Returns whether the region has a byte in [low, high). */
static bool touches(const emu_sdma_region_t *r, uint64_t low, uint64_t high)
{
    uint64_t extent = (r->rows - 1) * r->pitch + r->row_bytes;

    for (uint64_t z = 0; z < r->slices; z++) {
        uint64_t start = (uintptr_t)r->host + z * r->slice_pitch, row = 0;

        if (high <= start || low >= start + extent) {
            continue;
        }
        if (low >= start + r->row_bytes) {
            row = (low - start - r->row_bytes) / r->pitch + 1; /* the first row that ends after `low` */
        }
        if (row < r->rows && start + row * r->pitch < high) {
            return true;
        }
    }
    return false;
}

bool emu_sdma_region_overlap(const emu_sdma_region_t *a, const emu_sdma_region_t *b)
{
    uint64_t a0 = (uintptr_t)a->host, b0 = (uintptr_t)b->host;

    if (a0 >= b0 + emu_sdma_region_extent(b) || b0 >= a0 + emu_sdma_region_extent(a)) {
        return false;
    }
    for (uint64_t z = 0; z < a->slices; z++) {
        for (uint64_t y = 0; y < a->rows; y++) {
            uint64_t low = a0 + z * a->slice_pitch + y * a->pitch;

            if (touches(b, low, low + a->row_bytes)) {
                return true;
            }
        }
    }
    return false;
}
