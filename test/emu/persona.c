/* The table of GPU types; see persona.h. */
#include "persona.h"

#include <stddef.h>
#include <string.h>

/* The kernel's table for eight MI300X in one hive: the row is the source, the column the destination. It is not symmetric. Only
 * even engines serve a link. */
static const uint8_t mi300x_recommended[8][8] = {
    {0, 14, 12, 2, 4, 8, 10, 6}, {14, 0, 2, 10, 8, 4, 6, 12}, {10, 2, 0, 12, 14, 6, 4, 8}, {2, 12, 10, 0, 6, 14, 8, 4},
    {4, 8, 14, 6, 0, 10, 12, 2}, {8, 4, 6, 14, 12, 0, 2, 10}, {10, 6, 4, 8, 12, 2, 0, 14}, {6, 12, 8, 4, 2, 10, 14, 0},
};

static const struct emu_persona personas[] = {
    {
        .name = "mi100",
        .marketing_name = "AMD Instinct MI100 (emulated)",
        .device_id = 0x738c,
        .isa_major = 9,
        .isa_minor = 0,
        .isa_stepping = 8,
        .gfx_target_version = 90008,
        .host_engines = 2,
        .xgmi_engines = 6,
        .early_polls = 4,
        .compute_units = 120,
        .vram_bytes = 32ull << 30,
        .first_bus = 0x1d,
        .bus_step = 0x1c,
    },
    {
        .name = "mi250x",
        .marketing_name = "AMD Instinct MI250X (emulated)",
        .device_id = 0x7408,
        .isa_major = 9,
        .isa_minor = 0,
        .isa_stepping = 10,
        .gfx_target_version = 90010,
        .host_engines = 2,
        .xgmi_engines = 3,
        .compute_units = 110,
        .vram_bytes = 64ull << 30,
        .first_bus = 0x29,
        .bus_step = 4,
    },
    {
        .name = "mi300x",
        .marketing_name = "AMD Instinct MI300X (emulated)",
        .device_id = 0x74a1,
        .isa_major = 9,
        .isa_minor = 0,
        .isa_stepping = 10,
        .gfx_target_version = 90402,
        .host_engines = 2,
        .xgmi_engines = 14,
        .compute_units = 304,
        .vram_bytes = 192ull << 30,
        .peers_by_links_only = true,
        .first_bus = 0x0c,
        .bus_step = 0x16,
        .recommended = mi300x_recommended,
    },
    {
        .name = "mi308x",
        .marketing_name = "AMD Instinct MI308X (emulated)",
        .device_id = 0x74a2,
        .isa_major = 9,
        .isa_minor = 0,
        .isa_stepping = 10,
        .gfx_target_version = 90402,
        .host_engines = 2,
        .xgmi_engines = 6,
        .missing = 0xaa,
        .peers_by_links_only = true,
        .compute_units = 80,
        .vram_bytes = 192ull << 30,
        .first_bus = 0x0c,
        .bus_step = 0x16,
        .recommended = mi300x_recommended,
        .halved = true,
    },
};

const struct emu_persona *emu_persona_find(const char *name)
{
    for (size_t i = 0; i < sizeof personas / sizeof *personas; i++)
        if (strcmp(personas[i].name, name) == 0)
            return &personas[i];
    return NULL;
}

uint32_t emu_persona_location(const struct emu_persona *persona, int gpu)
{
    return (persona->first_bus + (uint32_t)gpu * persona->bus_step) << 8;
}

/* KFD's ids are hashes of 16 bits, and so not in order. */
uint32_t emu_persona_gpu_id(const struct emu_persona *persona, int gpu)
{
    return ((uint32_t)persona->device_id << 3 | (uint32_t)gpu) * 2654435761u >> 16;
}

uint64_t emu_persona_unique_id(const struct emu_persona *persona, int gpu)
{
    return 0xe3a1c0de00000000ull | (uint64_t)persona->device_id << 8 | (uint64_t)gpu;
}

/* As in the kernel: a single engine only in a full hive of a type for which the kernel has a table, otherwise all engines of
 * links. */
uint32_t emu_persona_engine_mask(const struct emu_persona *persona, int gpus, int from, int to)
{
    if (to < 0)
        return (1u << persona->host_engines) - 1;
    uint32_t engine = persona->recommended && gpus == 8 ? persona->recommended[from][to] >> persona->halved : 0;
    return engine >= persona->host_engines ? 1u << engine
                                           : ((1u << persona->xgmi_engines) - 1) << persona->host_engines;
}
