/* Reading the environment; see config.h. */
#include "config.h"

#include "hide.h"
#include "persona.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct emu_config config;

static _Noreturn void refuse(const char *name, const char *value)
{
    fprintf(stderr, "emulated node: %s=%s is not something it understands\n", name, value);
    exit(2);
}

static int64_t number(const char *name, int64_t otherwise, int64_t least, int64_t most)
{
    const char *text = getenv(name);
    if (!text || !*text)
        return otherwise;
    char *end;
    errno = 0;
    int64_t value = strtoll(text, &end, 0);
    if (errno || *end || value < least || value > most)
        refuse(name, text);
    return value;
}

/* Returns a list of packet names, separated by commas, as a bit mask. */
static uint32_t packet_kinds(const char *name)
{
    const char *text = getenv(name), *at = text ? text : "";
    uint32_t mask = 0;
    while (*at) {
        size_t length = strcspn(at, ",");
        int kind = 0;
        while (kind < EMU_SDMA_PACKET_KINDS &&
               (strncmp(emu_sdma_packet_name((emu_sdma_packet_kind_t)kind), at, length) ||
                emu_sdma_packet_name((emu_sdma_packet_kind_t)kind)[length]))
            kind++;
        if (kind == EMU_SDMA_PACKET_KINDS)
            refuse(name, text);
        mask |= 1u << kind;
        at += length + (at[length] == ',');
    }
    return mask;
}

/* Returns a list of rule names, separated by commas, as a bit mask. Only rules that may be lax; "all" means all of these. */
static uint64_t lax_rules(const char *name)
{
    const char *text = getenv(name), *at = text ? text : "";
    uint64_t mask = 0;
    if (strcmp(at, "all") == 0)
        return EMU_SDMA_MAY_BE_LAX;
    while (*at) {
        size_t length = strcspn(at, ",");
        uint64_t found = 0;
        for (int rule = 0; rule < EMU_SDMA_RULES; rule++) {
            const char *word = emu_sdma_rule_name((emu_sdma_rule_t)rule);
            if (strlen(word) == length && strncmp(word, at, length) == 0)
                found = EMU_SDMA_RULE_BIT(rule) & EMU_SDMA_MAY_BE_LAX;
        }
        if (!found)
            refuse(name, text);
        mask |= found;
        at += length + (at[length] == ',');
    }
    return mask;
}

static const char *folder(const char *name)
{
    const char *text = getenv(name);
    return text && *text ? text : NULL;
}

static enum emu_kfd_part kfd_part(const char *name)
{
    static const char *const words[] = {[EMU_KFD_NOTHING] = "",
                                        [EMU_KFD_MEMORY] = "memory",
                                        [EMU_KFD_QUEUES] = "queues",
                                        [EMU_KFD_DOORBELLS] = "doorbells"};
    const char *text = getenv(name);
    int part = EMU_KFD_NOTHING;
    while (text && part <= EMU_KFD_DOORBELLS && strcmp(text, words[part]) != 0)
        part++;
    if (part > EMU_KFD_DOORBELLS)
        refuse(name, text);
    return (enum emu_kfd_part)part;
}

static emu_sdma_config_t sdma_read(const struct emu_persona *persona, uint64_t seed)
{
    uint32_t version = persona->gfx_target_version;
    emu_sdma_gen_t gen = version >= 90400 ? EMU_SDMA_GFX942 : version >= 90010 ? EMU_SDMA_GFX90A : EMU_SDMA_GFX900;
    emu_sdma_config_t sdma = emu_sdma_config(gen, seed);
    int64_t slice_us = EMU_SDMA_DEFAULT_SLICE / 1000;
    sdma.peers_refused = persona->peers_by_links_only;
    sdma.slice_ns = (uint64_t)number("EMU_SLICE_US", slice_us, slice_us, 1000000) * 1000;
    sdma.in_flight = (unsigned)number("EMU_IN_FLIGHT", sdma.in_flight, 1, 64);
    sdma.stale_looks = (unsigned)number("EMU_STALE_LOOKS", sdma.stale_looks, 0, 1000000);
    sdma.early_polls = (unsigned)number("EMU_EARLY_POLLS", persona->early_polls, 0, 1000000);
    sdma.delay_ns = (uint64_t)number("EMU_DELAY_US", 0, 0, 1000000) * 1000;
    sdma.fault_packet = (uint64_t)number("EMU_FAULT_PACKET", 0, 0, INT64_MAX);
    sdma.reset_packet = (uint64_t)number("EMU_RESET_PACKET", 0, 0, INT64_MAX);
    sdma.fault_kinds = packet_kinds("EMU_FAULT_KINDS");
    sdma.hang_kinds = packet_kinds("EMU_HANG_KINDS");
    sdma.hang_bytes = (uint64_t)number("EMU_HANG_BYTES", 0, 0, INT64_MAX);
    sdma.spoil_kinds = packet_kinds("EMU_SPOIL_KINDS");
    sdma.lax = lax_rules("EMU_LAX");
    if (!emu_lose_read(getenv("EMU_LOSE"), &sdma.lose))
        refuse("EMU_LOSE", getenv("EMU_LOSE"));
    sdma.lose.late_ns = (uint64_t)number("EMU_LOSE_US", 20000, 1, 1000000000) * 1000;
    return sdma;
}

/* A constructor with a high priority, because constructors of libraries that use this one may already call it. */
__attribute__((constructor(101))) static void config_read(void)
{
    const char *name = getenv("EMU_PERSONA");
    if (!name || !*name)
        name = "mi300x";
    config.persona = emu_persona_find(name);
    if (!config.persona)
        refuse("EMU_PERSONA", name);
    config.gpus = (int)number("EMU_GPUS", EMU_MAX_GPUS, 1, EMU_MAX_GPUS);
    if (!emu_hide_read(getenv("EMU_HIDE"), &config.hidden))
        refuse("EMU_HIDE", getenv("EMU_HIDE"));
    config.node_dir = folder("EMU_NODE");
    config.log_dir = folder("EMU_LOG");
    config.stats_dir = folder("EMU_STATS");
    config.strict = number("EMU_STRICT", 1, 0, 1);
    config.trace = number("EMU_TRACE", 0, 0, 1);
    config.seed = (uint64_t)number("EMU_SEED", 1, 0, INT64_MAX);
    config.quarantine = (int)number("EMU_QUARANTINE", 0, 0, EMU_MAX_QUARANTINE);
    config.fail_queue_after = (int)number("EMU_FAIL_QUEUE_AFTER", -1, -1, INT32_MAX);
    config.fail_import_after = (int)number("EMU_FAIL_IMPORT_AFTER", -1, -1, INT32_MAX);
    config.kfd_minor = (uint32_t)number("EMU_KFD_MINOR", 17, 0, 99);
    config.kfd_refuses = kfd_part("EMU_KFD_REFUSES");
    config.evict_every_ns = (uint64_t)number("EMU_EVICT", 0, 0, 1000000000) * 1000;
    config.evict_most_ns = (uint64_t)number("EMU_EVICT_US", 20000, 1, 1000000000) * 1000;
    config.hangs_stay = number("EMU_HANGS_STAY", 0, 0, 1);
    config.sdma = sdma_read(config.persona, config.seed);
}

const struct emu_config *emu_config(void)
{
    return &config;
}
