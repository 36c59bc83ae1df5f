/* The render nodes; see render.h. */
#include "render.h"

#include "clock.h"
#include "config.h"
#include "file.h"
#include "gem.h"
#include "kfd.h"
#include "persona.h"
#include "process.h"
#include "report.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

enum {
    VERSION = 0x00,
    GEM_CLOSE = 0x09,
    HANDLE_TO_FD = 0x2d,
    FD_TO_HANDLE = 0x2e,
    GEM_MMAP = 0x41,
    INFO = 0x45,
    GEM_VA = 0x48,
    ACCEL_WORKING = 0x00, /* queries of INFO */
    RINGS = 0x03,
    READ_REGISTER = 0x15,
    DEVICE = 0x16,
    FAMILY_AI = 141, /* GFX9 */
    HBM = 6,
    DRIVER_MAJOR = 3, /* of amdgpu */
    DRIVER_MINOR = 57,
    ENGINE_KHZ = 1700000,
    MEMORY_KHZ = 1600000,
    VA_FIRST = 1 << 20,
};

struct version {
    int32_t major, minor, patch;
    size_t name_bytes;
    char *name;
    size_t date_bytes;
    char *date;
    size_t text_bytes;
    char *text;
};

struct gem {
    uint32_t handle, flags;
    int32_t dmabuf;
};

struct info {
    uint64_t answer;
    uint32_t bytes, query;
    /* Followed by arguments of some queries. */
};

struct device {
    uint32_t device_id, chip_rev, external_rev, pci_rev, family, shader_engines, arrays_per_engine, counter_khz;
    uint64_t engine_khz, memory_khz;
    uint32_t units, always_on_mask, bitmap[16], pipes_mask, pipes, contexts, pcie_gen;
    uint64_t flags, va_first, va_end;
    uint32_t va_alignment, fragment_bytes, page_bytes, ce_ram_bytes, memory_type, memory_bits;
};

static void put_text(char *to, size_t *room, const char *text)
{
    size_t length = strlen(text);
    if (to)
        memcpy(to, text, length < *room ? length : *room);
    *room = length;
}

static int version(struct version *args)
{
    args->major = DRIVER_MAJOR;
    args->minor = DRIVER_MINOR;
    args->patch = 0;
    put_text(args->name, &args->name_bytes, "amdgpu");
    put_text(args->date, &args->date_bytes, "20150101");
    put_text(args->text, &args->text_bytes, "AMD GPU");
    return 0;
}

static struct device device(void)
{
    const struct emu_persona *persona = emu_config()->persona;
    return (struct device){
        .device_id = persona->device_id,
        .family = FAMILY_AI,
        .shader_engines = EMU_ARRAYS,
        .arrays_per_engine = 1,
        .counter_khz = 1000000 / EMU_CLOCK_GPU_NS,
        .engine_khz = ENGINE_KHZ,
        .memory_khz = MEMORY_KHZ,
        .units = persona->compute_units,
        .contexts = 8,
        .va_first = VA_FIRST,
        .va_end = 1ull << 47,
        .va_alignment = KFD_PAGE,
        .fragment_bytes = 2 << 20,
        .page_bytes = KFD_PAGE,
        .memory_type = HBM,
        .memory_bits = 4096,
    };
}

/* Copies as much of the answer as the caller has room for. */
static int info(const struct info *args)
{
    union {
        struct device device;
        uint32_t words[256];
    } answer = {.words = {0}};
    switch (args->query) {
    case ACCEL_WORKING:
        answer.words[0] = 1;
        break;
    case DEVICE:
        answer.device = device();
        break;
    /* There are no registers and no rings of the driver. */
    case READ_REGISTER:
    case RINGS:
        break;
    default:
        emu_note("a question to a render node that is not known here: %#x", args->query);
        return EINVAL;
    }
    size_t room = args->bytes < sizeof answer ? args->bytes : sizeof answer;
    memcpy((void *)(uintptr_t)args->answer, &answer, room);
    return 0;
}

int emu_render_ioctl(int fd, int gpu, unsigned long request, void *argument)
{
    uint64_t file = emu_file_number(fd);
    struct gem *gem = argument;
    if (emu_process_forked())
        return EBADF;
    switch (_IOC_NR(request)) {
    case FD_TO_HANDLE:
        return emu_gem_import(file, gem->dmabuf, &gem->handle);
    case HANDLE_TO_FD:
        return emu_gem_export(file, gem->handle, &gem->dmabuf);
    case GEM_CLOSE:
        return emu_gem_close(file, gem->handle);
    case GEM_MMAP:
        return emu_gem_mmap(file, gem->handle, argument);
    case GEM_VA:
        return emu_gem_va(file, gpu, argument);
    case VERSION:
        return version(argument);
    case INFO:
        return info(argument);
    default:
        emu_note("a call on a render node that is not known here: %#x", (unsigned)_IOC_NR(request));
        return EINVAL;
    }
}
