/* Generations of SDMA engines: see gen.h. */
#include "engine/sdma/hw/gen.h"

#include <stddef.h>

#define COPY_22 ((UINT64_C(4) << 20) - 32) /* the count has 22 bits; minus 32: what all drivers subtract */

_Static_assert(DMA_GEN_LARGEST % 64 == 0 && COPY_22 % DMA_GEN_BROADCAST_MODULO == 0, "pieces stay aligned");

/* AMD's runtime does not trust POLL on all of gfx 9.0 but gfx90a (rocm-systems, "SW workaround for gfx90x SDMA poll"). */
enum { GFX9, GFX90A, GFX942, MI308X, GFX950 };

static const dma_gen_t generations[] = {
    [GFX9] = {.name = "gfx9", .max_copy = COPY_22, .has = DMA_GEN_RECT | DMA_GEN_TIMESTAMP},
    [GFX90A] = {.name = "gfx90a",
                .max_copy = DMA_GEN_LARGEST,
                .has = DMA_GEN_BROADCAST | DMA_GEN_RECT | DMA_GEN_POLL | DMA_GEN_COND | DMA_GEN_TIMESTAMP},
    [GFX942] = {.name = "gfx942",
                .max_copy = DMA_GEN_LARGEST,
                .max_swap = DMA_GEN_LARGEST,
                .swap_align = 64,
                .has =
                    DMA_GEN_BROADCAST | DMA_GEN_SWAP | DMA_GEN_RECT | DMA_GEN_POLL | DMA_GEN_COND | DMA_GEN_TIMESTAMP},
    [MI308X] = {.name = "gfx942 (MI308X)",
                .max_copy = DMA_GEN_LARGEST,
                .max_swap = DMA_GEN_LARGEST,
                .swap_align = 64,
                .has =
                    DMA_GEN_BROADCAST | DMA_GEN_SWAP | DMA_GEN_RECT | DMA_GEN_POLL | DMA_GEN_COND | DMA_GEN_TIMESTAMP,
                .even_engines = true},
    [GFX950] = {.name = "gfx950",
                .max_copy = DMA_GEN_LARGEST,
                .max_swap = DMA_GEN_LARGEST,
                .swap_align = 64,
                .has =
                    DMA_GEN_BROADCAST | DMA_GEN_SWAP | DMA_GEN_RECT | DMA_GEN_POLL | DMA_GEN_COND | DMA_GEN_TIMESTAMP},
};

static const struct {
    uint32_t device_id;
    uint8_t row;
} devices[] = {
    {0x7408, GFX90A}, /* MI250X */
    {0x740c, GFX90A}, /* MI250 */
    {0x740f, GFX90A}, /* MI210 */
    {0x74a0, GFX942}, /* MI300A */
    {0x74a1, GFX942}, /* MI300X */
    {0x74a2, MI308X}, /* eight engines are listed, only the four with even numbers exist */
    {0x74a5, GFX942}, /* MI325X */
    {0x74a8, MI308X}, /* MI308X HF */
    {0x74a9, GFX942}, /* MI300X HF */
    {0x74b5, GFX942}, /* MI300X, a virtual function */
    {0x74b6, MI308X}, /* MI308X, a virtual function */
    {0x74b9, GFX942}, /* MI325X, a virtual function */
    {0x74bc, MI308X}, /* MI308X HF, a virtual function */
    {0x75a0, GFX950}, /* MI350X */
    {0x75a3, GFX950}, /* MI355X */
};

static const struct {
    uint32_t version;
    uint8_t row;
} versions[] = {{90010, GFX90A}, {90402, GFX942}, {90500, GFX950}};

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

const dma_gen_t *dma_gen_find(uint32_t device_id, uint32_t version, const char **reason)
{
    for (size_t i = 0; i < COUNT(devices); i++) {
        if (devices[i].device_id == device_id) {
            return &generations[devices[i].row];
        }
    }
    for (size_t i = 0; i < COUNT(versions); i++) {
        if (versions[i].version == version) {
            return &generations[versions[i].row];
        }
    }
    if (version / 10000 == 9) {
        return &generations[GFX9];
    }
    *reason = version ? "its SDMA engines are of another generation than gfx9, with other packets"
                      : "it does not say its gfx version";
    return NULL;
}

const char *dma_gen_broadcast_unfit(const dma_gen_t *gen, uint64_t dst0, uint64_t dst1)
{
    if (!(gen->has & DMA_GEN_BROADCAST)) {
        return "this generation has no broadcast copy";
    }
    if ((dst0 - dst1) % DMA_GEN_BROADCAST_MODULO) {
        return "the destinations of a broadcast copy must be equal modulo 32";
    }
    return NULL;
}

const char *dma_gen_swap_unfit(const dma_gen_t *gen, uint64_t a, uint64_t b, uint64_t bytes)
{
    if (!(gen->has & DMA_GEN_SWAP)) {
        return "this generation has no swap";
    }
    if ((a | b) % gen->swap_align) {
        return "the addresses of a swap must be multiples of 64";
    }
    if (a < b + bytes && b < a + bytes) {
        return "what is swapped must not overlap";
    }
    return NULL;
}
