/*
 * Memory of the process that GPUs access at the process's own addresses, by attributes (SVM); see kfd.h. ROCr from 6.0 on
 * registers host memory in this way.
 *
 * Only access rights are modelled. Pages do not migrate, and faulted accesses are not retried: an access without the attribute
 * faults. A call splits the ranges at its two ends, changes the ranges in between, and joins neighbours that have become equal.
 * Ranges remain after the process has unmapped their addresses, until new memory gets these addresses.
 */
#include "kfd.h"

#include "process.h"
#include "vm.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

enum { SET = 0, GET = 1 };

enum {
    PREFERRED,
    PREFETCH,
    ACCESS,
    ACCESS_IN_PLACE,
    NO_ACCESS,
    SET_FLAGS,
    CLEAR_FLAGS,
    GRANULARITY,
    HOST_ACCESS = 1,
    READ_ONLY = 8,
    EXECUTE = 0x10,
    DEFAULT_GRANULARITY = 9,
};

#define ON_HOST  0u
#define NO_PLACE UINT32_MAX

static bool split_at(uint64_t at)
{
    struct emu_range *range = emu_vm_find(at);
    return !range || !range->svm || range->va == at || emu_vm_split(range, at);
}

/* Fills the gaps between `start` and `end` with ranges of this kind. There is no other memory there. False: no memory. */
static bool cover(uint64_t start, uint64_t end)
{
    if (!split_at(start) || !split_at(end))
        return false;
    for (uint64_t at = start; at < end;) {
        struct emu_range *range = emu_vm_find_overlap(at, end - at);
        uint64_t next = range ? range->va : end;
        if (next > at) {
            range = emu_vm_add_lent(at, (void *)(uintptr_t)at, -1, 0, next - at);
            if (!range)
                return false;
            range->svm = true;
            range->flags = HOST_ACCESS;
        }
        at = range->va + range->bytes;
    }
    return true;
}

static bool same(const struct emu_range *one, const struct emu_range *other)
{
    bool is = one->flags == other->flags && one->queues == 0 && other->queues == 0 &&
              one->mapped_count == other->mapped_count;
    for (uint32_t i = 0; is && i < one->mapped_count; i++)
        is = emu_vm_is_mapped(other, one->mapped[i]);
    return is;
}

/* Joins the range that begins at `at` with the one before it, if they are equal. */
static void join_at(uint64_t at)
{
    struct emu_range *second = emu_vm_find(at), *first = emu_vm_find(at - 1);
    if (!first || !second || first == second || !first->svm || !second->svm || !same(first, second))
        return;
    uint64_t bytes = second->bytes;
    emu_vm_remove(second);
    first->bytes += bytes;
    first->user_bytes += bytes;
}

static void set_one(struct emu_range *range, const struct kfd_svm_attribute *attribute)
{
    uint32_t node;
    switch (attribute->type) {
    case ACCESS:
    case ACCESS_IN_PLACE:
    case NO_ACCESS:
        node = emu_kfd_node(attribute->value);
        if (attribute->type == NO_ACCESS)
            emu_vm_unmap(range, &node, 1);
        else
            emu_vm_map_more(range, &node, 1);
        break;
    case SET_FLAGS:
        range->flags |= attribute->value;
        break;
    case CLEAR_FLAGS:
        range->flags &= ~attribute->value;
        break;
    default: /* the location of pages is not modelled */
        break;
    }
    range->read_only = (range->flags & READ_ONLY) != 0;
    range->executable = (range->flags & EXECUTE) != 0;
}

static int set(const struct kfd_svm *args)
{
    uint64_t end = args->start + args->bytes;
    if (!cover(args->start, end))
        return ENOMEM;
    for (uint64_t at = args->start; at < end;) {
        struct emu_range *range = emu_vm_find(at);
        for (uint32_t i = 0; i < args->n_attributes; i++)
            set_one(range, &args->attributes[i]);
        at = range->va + range->bytes;
    }
    join_at(end);
    for (uint64_t at = end; at > args->start; at = emu_vm_find(at - 1)->va)
        join_at(at);
    join_at(args->start);
    return 0;
}

/* Returns the attributes that are equal for the whole range. */
static int get(struct kfd_svm *args)
{
    uint64_t end = args->start + args->bytes;
    uint32_t all = UINT32_MAX, any = 0;
    for (uint64_t at = args->start; at < end;) {
        const struct emu_range *range = emu_vm_find(at);
        uint32_t flags = range && range->svm ? range->flags : 0;
        all &= flags;
        any |= flags;
        at = range ? range->va + range->bytes : at + KFD_PAGE;
    }
    for (uint32_t i = 0; i < args->n_attributes; i++) {
        struct kfd_svm_attribute *attribute = &args->attributes[i];
        uint32_t node = 0;
        const struct emu_range *range = emu_vm_find(args->start);
        switch (attribute->type) {
        case PREFERRED:
        case PREFETCH:
            attribute->value = NO_PLACE;
            break;
        case ACCESS:
            if (!(node = emu_kfd_node(attribute->value)))
                return EINVAL;
            attribute->type = range && range->svm && emu_vm_is_mapped(range, node) ? ACCESS : NO_ACCESS;
            break;
        case SET_FLAGS:
            attribute->value = all;
            break;
        case CLEAR_FLAGS:
            attribute->value = ~any;
            break;
        case GRANULARITY:
            attribute->value = DEFAULT_GRANULARITY;
            break;
        default:
            return EINVAL;
        }
    }
    return 0;
}

static bool is_place(uint32_t where, bool may_be_none)
{
    return where == ON_HOST || (may_be_none && where == NO_PLACE) || emu_kfd_node(where);
}

static bool is_attribute(const struct kfd_svm_attribute *attribute)
{
    switch (attribute->type) {
    case PREFERRED:
    case PREFETCH:
        return is_place(attribute->value, attribute->type == PREFERRED);
    case ACCESS:
    case ACCESS_IN_PLACE:
    case NO_ACCESS:
        return emu_kfd_node(attribute->value);
    default:
        return attribute->type <= GRANULARITY;
    }
}

/* Returns 0 if the process has mapped these addresses, and if no memory there was allocated or registered by the driver. */
static int is_own(const struct kfd_svm *args)
{
    if (msync((void *)(uintptr_t)args->start, args->bytes, MS_ASYNC))
        return EFAULT;
    for (uint64_t at = args->start, end = at + args->bytes; at < end;) {
        const struct emu_range *range = emu_vm_find_overlap(at, end - at);
        if (range && !range->svm)
            return EADDRINUSE;
        at = range ? range->va + range->bytes : end;
    }
    return 0;
}

int emu_kfd_svm(struct kfd_svm *args)
{
    if (args->start % KFD_PAGE || args->bytes % KFD_PAGE || args->start == 0 || args->bytes == 0 || args->op > GET ||
        args->start + args->bytes < args->start)
        return EINVAL;
    for (uint32_t i = 0; args->op == SET && i < args->n_attributes; i++)
        if (!is_attribute(&args->attributes[i]))
            return EINVAL;
    emu_vm_lock();
    int error = is_own(args);
    error = error ? error : args->op == SET ? set(args) : get(args);
    emu_vm_unlock();
    return error;
}

void emu_kfd_svm_forget(uint64_t va, uint64_t bytes)
{
    struct emu_range *range;
    if (!split_at(va) || !split_at(va + bytes))
        return;
    while ((range = emu_vm_find_overlap(va, bytes)) && range->svm)
        emu_vm_remove(range);
}
