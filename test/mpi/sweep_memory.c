/*
 * The memory of buffers. With -D it is device memory of many kinds, and a call has other kinds on every rank.
 *
 * Device memory comes from hipMalloc each time, so that a freed address is soon used for something else, or from a slab that
 * many buffers share, as from an application's own allocator. The program loads HIP itself, and only with -D: a sweep of
 * host memory never does.
 */
#include "sweep.h"

#include "../device/hip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const memory_names[MEMORY_KINDS] = {
    "host",         "pinned",  "registered",    "device", "part of an allocation", "to the end of an allocation",
    "fine-grained", "managed", "another device"};
const char *const memory_mode_names[MEMORY_MODES] = {"host", "device", "ranks", "any"};

enum { PAGE = 4096, SLAB = 8 << 20, SLAB_GRAIN = 16, MOST_SEEN = 64, STREAM_MEMORY = 20000 };

static int devices;
static long taken[MEMORY_KINDS], used_again;

typedef struct {
    unsigned char *memory;
    size_t used;
    long live;
} slab_t;
static _Thread_local slab_t slab;
static _Thread_local int device_of_thread = -1;

bool memory_open(void)
{
    return options.memory == MEMORY_MODE_HOST || hip_open(&devices);
}

static int own_device(void)
{
    return world_rank % devices;
}

/* Each thread has a current device of its own. */
static void use_device(int device)
{
    if (device_of_thread != device) {
        hip_must("hipSetDevice", hip.hipSetDevice(device));
        device_of_thread = device;
    }
}

void memory_begin(void)
{
    if (options.memory != MEMORY_MODE_HOST) {
        use_device(own_device());
    }
}

static memory_kind_t any_kind(rng_t *rng)
{
    memory_kind_t kind = (memory_kind_t)rng_below(rng, MEMORY_KINDS);
    return kind == MEMORY_OTHER && devices < 2 ? MEMORY_DEVICE : kind;
}

static memory_kind_t plain_kind(rng_t *rng)
{
    return (memory_kind_t)(MEMORY_DEVICE + rng_below(rng, 3));
}

memory_kind_t memory_choose(const call_t *call, bool sending)
{
    rng_t rng = rng_make(call->name, STREAM_MEMORY + (uint64_t)world_rank, sending);
    switch (options.memory) {
    case MEMORY_MODE_DEVICE:
        return plain_kind(&rng);
    case MEMORY_MODE_RANKS:
        /* now and then on all ranks, between calls that the host carries out */
        return mix(call->name, STREAM_MEMORY) % 4 && mix(call->name, (uint64_t)world_rank) % 2 ? MEMORY_HOST
                                                                                               : plain_kind(&rng);
    case MEMORY_MODE_ANY:
        /* the usual case of an application: everything on the device */
        return mix(call->name, STREAM_MEMORY) % 4 == 0 ? plain_kind(&rng) : any_kind(&rng);
    default:
        return MEMORY_HOST;
    }
}

bool memory_plain_types(const call_t *call)
{
    return options.memory != MEMORY_MODE_HOST && mix(call->name, STREAM_MEMORY + 1) % 4 != 0;
}

bool memory_reachable(memory_kind_t kind)
{
    return kind <= MEMORY_REGISTERED;
}

static void *take_part(size_t bytes)
{
    size_t room = (bytes + SLAB_GRAIN - 1) / SLAB_GRAIN * SLAB_GRAIN;
    if (slab.live == 0) {
        slab.used = 0;
    }
    if (slab.memory == NULL) {
        slab.memory = hip_take(SLAB);
    }
    if (room > SLAB - slab.used) {
        return NULL;
    }
    slab.live++;
    slab.used += room;
    return slab.memory + slab.used - room;
}

static void give_part(void)
{
    if (--slab.live == 0 && slab.used > SLAB / 2) {
        hip_must("hipFree", hip.hipFree(slab.memory));
        slab.memory = NULL;
    }
}

/* How often an address comes back after it was freed. */
static void see_address(const void *memory, bool freed)
{
    static const void *seen[MOST_SEEN];
    static unsigned next;
    if (freed) {
        seen[next++ % MOST_SEEN] = memory;
        return;
    }
    for (int i = 0; i < MOST_SEEN; i++) {
        if (seen[i] == memory) {
            used_again++;
            return;
        }
    }
}

static void *take_registered(size_t bytes)
{
    void *memory = NULL;
    size_t whole = (bytes + PAGE - 1) / PAGE * PAGE;
    if (posix_memalign(&memory, PAGE, whole) == 0) {
        hip_must("hipHostRegister", hip.hipHostRegister(memory, whole, 0));
    }
    return memory;
}

/* memory_give gets the memory's `from`. */
void *memory_take(memory_kind_t *kind, size_t bytes, void **from)
{
    size_t whole = (bytes + PAGE - 1) / PAGE * PAGE;
    void *memory = NULL, *part = NULL;
    if (*kind == MEMORY_PART && !(part = take_part(bytes))) {
        *kind = MEMORY_DEVICE;
    }
    switch (*kind) {
    case MEMORY_PINNED:
        hip_must("hipHostMalloc", hip.hipHostMalloc(&memory, bytes, 0));
        break;
    case MEMORY_REGISTERED:
        memory = take_registered(bytes);
        break;
    case MEMORY_PART:
        memory = part;
        break;
    case MEMORY_FINE:
        hip_must("hipExtMallocWithFlags", hip.hipExtMallocWithFlags(&memory, bytes, HIP_FINE_GRAINED));
        break;
    case MEMORY_MANAGED:
        hip_must("hipMallocManaged", hip.hipMallocManaged(&memory, bytes, HIP_ATTACH_GLOBAL));
        break;
    case MEMORY_OTHER:
        use_device((own_device() + 1) % devices);
        memory = hip_take(bytes);
        use_device(own_device());
        break;
    default:
        memory = hip_take(whole);
        see_address(memory, false);
        break;
    }
    *from = memory;
    taken[*kind]++;
    return *kind == MEMORY_END ? (char *)memory + whole - bytes : memory;
}

void memory_give(memory_kind_t kind, void *from)
{
    switch (kind) {
    case MEMORY_PINNED:
        hip_must("hipHostFree", hip.hipHostFree(from));
        break;
    case MEMORY_REGISTERED:
        hip_must("hipHostUnregister", hip.hipHostUnregister(from));
        free(from);
        break;
    case MEMORY_PART:
        give_part();
        break;
    case MEMORY_DEVICE:
    case MEMORY_END:
        see_address(from, true);
        hip_must("hipFree", hip.hipFree(from));
        break;
    default:
        hip_must("hipFree", hip.hipFree(from));
        break;
    }
}

void memory_copy(void *to, const void *from, size_t bytes)
{
    hip_copy(to, from, bytes);
}

void memory_print(void)
{
    long all[MEMORY_KINDS + 1];
    if (options.memory == MEMORY_MODE_HOST) {
        return;
    }
    memcpy(all, taken, sizeof(taken));
    all[MEMORY_KINDS] = used_again;
    MPI_Allreduce(MPI_IN_PLACE, all, MEMORY_KINDS + 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; world_rank == 0 && i < MEMORY_KINDS; i++) {
        printf("memory %s: %ld\n", memory_names[i], all[i]);
    }
    if (world_rank == 0) {
        printf("memory at an address used before: %ld\n", all[MEMORY_KINDS]);
    }
}
