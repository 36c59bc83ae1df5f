/* Kernels of the runtimes; see kernels.h. */
#include "kernels.h"

#include "fault.h"
#include "process.h"
#include "report.h"
#include "vm.h"

#include <elf.h>
#include <string.h>

enum { PAGE = 4096, BLOCK_OF_CODE = 256, NAME = 128 };

/* A kernel that is run. Its arguments are bytes at fixed offsets. */
struct call {
    uint32_t node;
    const char *arguments;
};

static uint64_t arg64(const struct call *call, size_t at)
{
    uint64_t value;
    memcpy(&value, call->arguments + at, sizeof value);
    return value;
}

static uint32_t arg32(const struct call *call, size_t at)
{
    uint32_t value;
    memcpy(&value, call->arguments + at, sizeof value);
    return value;
}

/* Returns the host address of memory that the kernel accesses. NULL: a fault was raised. */
static void *reach(const struct call *call, uint64_t va, uint64_t bytes, bool write)
{
    const char *why;
    char *at = emu_vm_translate(call->node, va, bytes, write, &why);
    if (!at) {
        emu_report("unmapped", "kernel of GPU %d accesses %#llx: %s", emu_gpu_of(call->node), (unsigned long long)va,
                   why);
        emu_fault_raise(call->node, va, write);
    }
    return at;
}

static enum emu_kernel_state copy(const struct call *call, uint64_t to, uint64_t from, uint64_t bytes)
{
    if (bytes == 0)
        return EMU_KERNEL_DONE;
    const void *source = reach(call, from, bytes, false);
    void *target = source ? reach(call, to, bytes, true) : NULL;
    if (!target)
        return EMU_KERNEL_FAULT;
    memmove(target, source, bytes);
    return EMU_KERNEL_DONE;
}

static enum emu_kernel_state fill(const struct call *call, uint64_t to, const void *pattern, size_t size,
                                  uint64_t times)
{
    if (size == 0 || times == 0)
        return EMU_KERNEL_DONE;
    char *target = reach(call, to, size * times, true);
    if (!target)
        return EMU_KERNEL_FAULT;
    for (uint64_t i = 0; i < times; i++)
        memcpy(target + i * size, pattern, size);
    return EMU_KERNEL_DONE;
}

/*
 * ROCr's shaders. The arguments describe the range in phases. Only the first start and the last end are used here.
 *   aligned copy    from, to, ..., end of from at 8      misaligned copy    from, to, ..., end of from at 4
 *   fill            to, ..., end of to at 2, value at 3
 */
enum { SHADER = 0xC00A0100, FILL_WORD = 0xBF8C007F, ALIGNED_WORD = 0xC00A0400 };

static enum emu_kernel_state run_shader(const struct call *call, const uint32_t *code)
{
    uint64_t first = arg64(call, 0);
    if (code[4] == FILL_WORD) {
        uint32_t value = arg32(call, 3 * 8);
        return fill(call, first, &value, sizeof value, (arg64(call, 2 * 8) - first) / sizeof value);
    }
    uint64_t end = arg64(call, code[6] == ALIGNED_WORD ? 8 * 8 : 4 * 8);
    return copy(call, arg64(call, 8), first, end - first);
}

/* From 6.3 on, the arguments are: buffer, pattern, number and width of its elements, end of the buffer. */
static enum emu_kernel_state fill_to_end(const struct call *call)
{
    uint64_t to = arg64(call, 0);
    size_t size = (size_t)arg32(call, 16) * arg32(call, 20);
    const void *pattern = size ? reach(call, arg64(call, 8), size, false) : NULL;
    return pattern ? fill(call, to, pattern, size, (arg64(call, 24) - to + size - 1) / size) : EMU_KERNEL_FAULT;
}

/* HIP's kernels, with the arguments of its OpenCL sources. Of four buffers, the one for the width of the elements is set. */
static enum emu_kernel_state fill_buffer(const struct call *call)
{
    static const size_t widths[] = {1, 2, 4, 8};
    if (arg64(call, 0) && arg64(call, 8))
        return fill_to_end(call);
    for (size_t i = 0; i < 4; i++) {
        uint64_t buffer = arg64(call, i * 8);
        if (!buffer)
            continue;
        size_t size = arg32(call, 40) * widths[i];
        const void *pattern = reach(call, arg64(call, 32), size, false);
        return pattern ? fill(call, buffer + arg64(call, 48) * widths[i], pattern, size, arg64(call, 56))
                       : EMU_KERNEL_FAULT;
    }
    return EMU_KERNEL_DONE;
}

static enum emu_kernel_state fill_buffer_2d(const struct call *call)
{
    static const size_t widths[] = {1, 2, 4, 8};
    enum emu_kernel_state state = EMU_KERNEL_DONE;
    for (size_t i = 0; i < 4; i++) {
        uint64_t buffer = arg64(call, i * 8);
        if (!buffer)
            continue;
        size_t size = arg32(call, 40) * widths[i];
        const void *pattern = reach(call, arg64(call, 32), size, false);
        for (uint64_t row = 0; pattern && state == EMU_KERNEL_DONE && row < arg64(call, 64); row++)
            state = fill(call, buffer + (arg64(call, 48) + row * arg64(call, 72)) * widths[i], pattern, size,
                         arg64(call, 56));
        return pattern ? state : EMU_KERNEL_FAULT;
    }
    return state;
}

/* Before 6.3, the size is in whole words, and another argument has the remaining bytes. From 6.3 on, the size is in bytes, at
 * the place of an offset, followed by the number of remaining bytes and by the end of the whole words. */
static enum emu_kernel_state copy_buffer(const struct call *call)
{
    uint64_t size = arg64(call, 16), to = arg64(call, 8);
    if (arg64(call, 32) == to + size - arg32(call, 24))
        return copy(call, to, arg64(call, 0), size);
    uint64_t count = arg64(call, 32);
    uint32_t last = arg32(call, 40);
    uint64_t bytes = last == 8 ? count : (count - 1) * 4 + last;
    return copy(call, arg64(call, 8) + arg64(call, 24), arg64(call, 0) + arg64(call, 16), bytes);
}

/* Sizes and offsets are in units of the last argument. */
static enum emu_kernel_state copy_buffer_aligned(const struct call *call)
{
    uint64_t unit = arg32(call, 40);
    return copy(call, arg64(call, 8) + arg64(call, 24) * unit, arg64(call, 0) + arg64(call, 16) * unit,
                arg64(call, 32) * unit);
}

/* Two rectangles {pitch, slice, offset} at 32 and 64, and the size at 96, all in elements. */
static enum emu_kernel_state copy_rect(const struct call *call, uint64_t element)
{
    enum emu_kernel_state state = EMU_KERNEL_DONE;
    for (uint64_t z = 0; z < arg64(call, 112); z++)
        for (uint64_t y = 0; state == EMU_KERNEL_DONE && y < arg64(call, 104); y++) {
            uint64_t from = arg64(call, 48) + y * arg64(call, 32) + z * arg64(call, 40);
            uint64_t to = arg64(call, 80) + y * arg64(call, 64) + z * arg64(call, 72);
            state =
                copy(call, arg64(call, 8) + to * element, arg64(call, 0) + from * element, arg64(call, 96) * element);
        }
    return state;
}

static enum emu_kernel_state copy_buffer_rect(const struct call *call)
{
    return copy_rect(call, 1);
}

/* The size has a fourth component, the bytes of an element. */
static enum emu_kernel_state copy_buffer_rect_aligned(const struct call *call)
{
    return copy_rect(call, arg64(call, 120));
}

/* Writes a 32-bit word at the first pointer, or a 64-bit word at the second. */
static enum emu_kernel_state stream_write(const struct call *call)
{
    bool small = arg64(call, 0);
    uint64_t va = arg64(call, small ? 0 : 8), value = arg64(call, 16);
    void *at = reach(call, va, small ? 4 : 8, true);
    if (!at)
        return EMU_KERNEL_FAULT;
    if (small)
        __atomic_store_n((uint32_t *)at, (uint32_t)value, __ATOMIC_RELEASE);
    else
        __atomic_store_n((uint64_t *)at, value, __ATOMIC_RELEASE);
    return EMU_KERNEL_DONE;
}

enum { WAIT_GREATER_EQUAL, WAIT_EQUAL, WAIT_AND, WAIT_NOR };

static enum emu_kernel_state stream_wait(const struct call *call)
{
    bool small = arg64(call, 0);
    void *at = reach(call, arg64(call, small ? 0 : 8), small ? 4 : 8, false);
    if (!at)
        return EMU_KERNEL_FAULT;
    uint64_t ones = small ? UINT32_MAX : UINT64_MAX, wanted = arg64(call, 16) & ones, mask = arg64(call, 32) & ones;
    uint64_t value =
        small ? __atomic_load_n((uint32_t *)at, __ATOMIC_ACQUIRE) : __atomic_load_n((uint64_t *)at, __ATOMIC_ACQUIRE);
    value &= mask;
    bool open = false;
    switch (arg64(call, 24)) {
    case WAIT_GREATER_EQUAL:
        open = small ? (int32_t)(uint32_t)(value - wanted) >= 0 : (int64_t)(value - wanted) >= 0;
        break;
    case WAIT_EQUAL:
        open = value == wanted;
        break;
    case WAIT_AND:
        open = value & wanted;
        break;
    case WAIT_NOR:
        open = ~(value | wanted) & ones;
        break;
    }
    return open ? EMU_KERNEL_DONE : EMU_KERNEL_WAITS;
}

static const struct {
    const char *name;
    enum emu_kernel_state (*run)(const struct call *call);
} kernels[] = {
    {"__amd_rocclr_fillBufferAligned.kd", fill_buffer},
    {"__amd_rocclr_fillBufferAligned2D.kd", fill_buffer_2d},
    {"__amd_rocclr_copyBuffer.kd", copy_buffer},
    {"__amd_rocclr_copyBufferAligned.kd", copy_buffer_aligned},
    {"__amd_rocclr_copyBufferRect.kd", copy_buffer_rect},
    {"__amd_rocclr_copyBufferRectAligned.kd", copy_buffer_rect_aligned},
    {"__amd_rocclr_streamOpsWrite.kd", stream_write},
    {"__amd_rocclr_streamOpsWait.kd", stream_wait},
};

/* Finds the name of the symbol at an offset of a loaded code object. */
static void symbol_at(const char *elf, uint64_t offset, char *name)
{
    const Elf64_Ehdr *header = (const void *)elf;
    const Elf64_Phdr *segments = (const void *)(elf + header->e_phoff);
    const Elf64_Sym *symbols = NULL;
    const char *strings = NULL;
    const uint32_t *hash = NULL;
    for (int i = 0; i < header->e_phnum; i++) {
        if (segments[i].p_type != PT_DYNAMIC)
            continue;
        for (const Elf64_Dyn *entry = (const void *)(elf + segments[i].p_vaddr); entry->d_tag != DT_NULL; entry++) {
            if (entry->d_tag == DT_SYMTAB)
                symbols = (const void *)(elf + entry->d_un.d_ptr);
            else if (entry->d_tag == DT_STRTAB)
                strings = elf + entry->d_un.d_ptr;
            else if (entry->d_tag == DT_HASH)
                hash = (const void *)(elf + entry->d_un.d_ptr);
        }
    }
    for (uint32_t i = 0; symbols && strings && hash && i < hash[1]; i++)
        if (symbols[i].st_value == offset) {
            strncpy(name, strings + symbols[i].st_name, NAME - 1);
            return;
        }
}

/* The loader keeps the ELF header of a code object in the allocation of its kernels, at the begin of a page before them. */
static void kernel_name(uint64_t kernel, char *name)
{
    memset(name, 0, NAME);
    const struct emu_range *range = emu_vm_find(kernel);
    if (!range)
        return;
    for (uint64_t page = kernel & ~(uint64_t)(PAGE - 1); page >= range->va; page -= PAGE) {
        const char *at = range->host + (page - range->va);
        if (memcmp(at, ELFMAG, SELFMAG) == 0) {
            symbol_at(at, kernel - page, name);
            return;
        }
    }
}

enum emu_kernel_state emu_kernel_run(uint32_t node, const hsa_kernel_dispatch_packet_t *packet)
{
    struct call call = {.node = node, .arguments = packet->kernarg_address};
    /* In both formats, the third word of a kernel object is the distance to its code. */
    const char *object = (const char *)packet->kernel_object;
    int64_t entry;
    memcpy(&entry, object + 16, sizeof entry);
    const uint32_t *code = (const uint32_t *)(object + entry);
    if (entry == BLOCK_OF_CODE && code[0] == SHADER)
        return run_shader(&call, code);
    char name[NAME];
    kernel_name(packet->kernel_object, name);
    emu_trace("GPU %d runs %s", emu_gpu_of(node), name);
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (strcmp(kernels[i].name, name) == 0)
            return kernels[i].run(&call);
    emu_fault_violation(node, packet->kernel_object, "kernel", "GPU %d has no kernel '%s'", emu_gpu_of(node), name);
    return EMU_KERNEL_FAULT;
}
