/* Reading the environment; see config.h. */
#include "config.h"

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

int64_t emu_config_number(const char *name, int64_t otherwise, int64_t least, int64_t most)
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

static const char *folder(const char *name)
{
    const char *text = getenv(name);
    return text && *text ? text : NULL;
}

/* Before any constructor of the libraries that use this one, which may already call us. */
__attribute__((constructor(101))) static void config_read(void)
{
    const char *name = getenv("EMU_PERSONA");
    if (!name || !*name)
        name = "mi250x";
    config.persona = emu_persona_find(name);
    if (!config.persona)
        refuse("EMU_PERSONA", name);
    config.gpus = (int)emu_config_number("EMU_GPUS", EMU_MAX_GPUS, 1, EMU_MAX_GPUS);
    config.node_dir = folder("EMU_NODE");
    config.log_dir = folder("EMU_LOG");
    config.stats_dir = folder("EMU_STATS");
    config.strict = emu_config_number("EMU_STRICT", 1, 0, 1);
    config.trace = emu_config_number("EMU_TRACE", 0, 0, 1);
    config.seed = (uint64_t)emu_config_number("EMU_SEED", 1, 0, INT64_MAX);
    config.quarantine = (int)emu_config_number("EMU_QUARANTINE", 0, 0, EMU_MAX_QUARANTINE);
    config.fail_queue_after = (int)emu_config_number("EMU_FAIL_QUEUE_AFTER", -1, -1, INT32_MAX);
    config.fail_import_after = (int)emu_config_number("EMU_FAIL_IMPORT_AFTER", -1, -1, INT32_MAX);
}

const struct emu_config *emu_config(void)
{
    return &config;
}
