/*
 * The types of GPUs that the node can emulate (personas). All properties of a GPU come from one row of this table, both in the
 * thunk (topology.c) and in KFD's text files (tree.c), so that these always agree.
 *
 * Nodes are numbered as in KFD: node 0 is the host, node 1 + g is GPU g.
 */
#ifndef EMU_PERSONA_H
#define EMU_PERSONA_H

#include <stdbool.h>
#include <stdint.h>

struct emu_persona {
    const char *name;
    const char *marketing_name;
    uint16_t device_id;
    /* The version for runtimes: Debian's HIP 5.2.3 knows gfx90a and ignores gfx942. KFD's files have the real version. */
    uint32_t isa_major, isa_minor, isa_stepping;
    uint32_t gfx_target_version;
    uint32_t host_engines, xgmi_engines;
    uint32_t missing;     /* bit mask of engines that are fused off, although the kernel lists and recommends them */
    unsigned early_polls; /* emu_sdma_config_t */
    bool peers_by_links_only; /* host-facing engines refuse other GPUs' memory, except for AMD's runtime */
    uint32_t compute_units;
    uint64_t vram_bytes;
    uint32_t first_bus, bus_step; /* PCI bus of GPU g: first_bus + g * bus_step */
    /* The engine that the kernel recommends for the link from one GPU to another, or NULL. For a GPU with half as many engines
     * as in the table, the kernel divides the number by two. */
    const uint8_t (*recommended)[8];
    bool halved;
};

const struct emu_persona *emu_persona_find(const char *name);

/* PCI bus, device and function in one number, in KFD's format. */
uint32_t emu_persona_location(const struct emu_persona *persona, int gpu);
uint32_t emu_persona_gpu_id(const struct emu_persona *persona, int gpu);
uint64_t emu_persona_unique_id(const struct emu_persona *persona, int gpu);

/* Returns the engines that are recommended for copies from one GPU to another, or to the host (`to` is -1), if there are
 * `gpus`. */
uint32_t emu_persona_engine_mask(const struct emu_persona *persona, int gpus, int from, int to);

/* All GPUs of a node are in one hive. */
#define EMU_HIVE_ID           0x5eed0000beef1234ull
#define EMU_LINK_WEIGHT_XGMI  15
#define EMU_LINK_WEIGHT_PCIE  20
#define EMU_QUEUES_PER_ENGINE 8
#define EMU_ARRAYS            8 /* of compute units */
#define EMU_PARTS             8 /* of a GFX9.4.3 GPU */

#endif
