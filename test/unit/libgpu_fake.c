/* The fake runtime: devices, scopes, memory, IPC, injected failures. Its streams are in libgpu_fake_stream.c. */
#include "libgpu_fake.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gpu/internal.h"
#include "libgpu_fake_internal.h"

#define MAGIC 0x66616b6567707531u
#define PAGE  FAKE_PAGE

fake_machine_t fake_machine = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* The contents of an IPC handle, with the process that may open it. */
typedef struct ticket {
    uint64_t magic, id, size;
    int32_t fd, device;
} ticket_t;

_Static_assert(sizeof(ticket_t) <= DMA_GPU_HANDLE_BYTES, "fits");

fake_range_t *fake_ranges;
static uint64_t last_id;

static _Thread_local void *next_at;      /* only the caller gets the address, */
static _Thread_local uint64_t next_room; /* and only the caller gets the pages behind it */
static _Thread_local int depth, current;
static _Thread_local bool ending;

/* Functions by name: the number of calls, and which call fails. */
static struct {
    const char *name;
    unsigned calls, fail_at, fail_until;
    dma_status_t status;
} functions[64];

void fake_misuse(const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fprintf(stderr, "fake GPU: %s\n", text); /* one write: lines of several threads must not mix */
    abort();
}

static size_t function_index(const char *name)
{
    size_t i = 0;

    while (functions[i].name && strcmp(functions[i].name, name) != 0) {
        i++;
    }
    functions[i].name = name;
    return i;
}

bool fake_call(const char *function, dma_status_t *status)
{
    size_t i;
    bool fails;

    pthread_mutex_lock(&fake_machine.lock);
    i = function_index(function);
    functions[i].calls++;
    fails = functions[i].fail_at && functions[i].calls >= functions[i].fail_at &&
            functions[i].calls < functions[i].fail_until;
    *status = fails ? functions[i].status : DMA_ERR_ENGINE;
    fails |= fake_machine.shut_down;
    pthread_mutex_unlock(&fake_machine.lock);
    return !fails;
}

unsigned fake_gpu_calls(const char *function)
{
    unsigned calls;

    pthread_mutex_lock(&fake_machine.lock);
    calls = functions[function_index(function)].calls;
    pthread_mutex_unlock(&fake_machine.lock);
    return calls;
}

void fake_gpu_fail_often(const char *function, unsigned skip, unsigned times, dma_status_t status)
{
    size_t i;

    pthread_mutex_lock(&fake_machine.lock);
    i = function_index(function);
    functions[i].fail_at = functions[i].calls + skip + 1;
    functions[i].fail_until = functions[i].fail_at + times;
    functions[i].status = status;
    pthread_mutex_unlock(&fake_machine.lock);
}

void fake_gpu_fail(const char *function, unsigned skip, dma_status_t status)
{
    fake_gpu_fail_often(function, skip, 1, status);
}

int fake_scope(const char *function)
{
    if (depth == 0) {
        fake_misuse("%s outside of enter and leave", function);
    }
    return current;
}

/* The caller holds the lock. */
uint64_t fake_random(void)
{
    uint64_t x = fake_machine.random;

    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return fake_machine.random = x;
}

static dma_status_t device_count(int *count)
{
    dma_status_t status;

    if (!fake_call("device_count", &status)) {
        return status;
    }
    *count = fake_machine.options.devices;
    return DMA_OK;
}

static dma_status_t device_pci(int device, dma_gpu_pci_t *pci)
{
    dma_status_t status;

    if (!fake_call("device_pci", &status)) {
        return status;
    }
    *pci = (dma_gpu_pci_t){.domain = 0, .bus = 0x10u * ((uint32_t)device + 1), .device = 0};
    return DMA_OK;
}

static dma_status_t enter_for(const char *function, int device, dma_gpu_scope_t *scope)
{
    dma_status_t status;

    if (!fake_call(function, &status)) {
        return status;
    }
    if (device < 0 || device >= fake_machine.options.devices) {
        return DMA_ERR_ENGINE;
    }
    scope->previous = current;
    current = device;
    depth++;
    return DMA_OK;
}

void fake_gpu_ending(void)
{
    ending = true;
}

static dma_status_t enter(int device, dma_gpu_scope_t *scope)
{
    if (ending) {
        fake_misuse("enter where objects are released");
    }
    return device >= 0 && device < FAKE_GPU_MAX_DEVICES && fake_is_lost(device)
               ? dma_gpu_fail(DMA_ERR_ENGINE, "device %d has been reset", device)
               : enter_for("enter", device, scope);
}

static dma_status_t enter_to_release(int device, dma_gpu_scope_t *scope)
{
    return enter_for("enter_to_release", device, scope);
}

static void leave(dma_gpu_scope_t *scope)
{
    if (depth-- == 0) {
        fake_misuse("leave without enter");
    }
    current = scope->previous;
}

fake_range_t *fake_find_range(uint64_t addr)
{
    fake_range_t *r = fake_ranges;

    while (r && addr - r->base >= r->size) {
        r = r->next;
    }
    return r;
}

void fake_check_range(const char *function, uint64_t addr, uint64_t bytes)
{
    fake_range_t *r;

    pthread_mutex_lock(&fake_machine.lock);
    while ((r = fake_find_range(addr)) && bytes > r->size - (addr - r->base)) {
        if (!r->maps) {
            fake_misuse("%s: %#lx + %#lx goes beyond its allocation", function, addr, bytes);
        }
        bytes -= r->size - (addr - r->base); /* the next mapping follows it */
        addr = r->base + r->size;
    }
    pthread_mutex_unlock(&fake_machine.lock);
}

uint64_t fake_buffer_id(uint64_t addr)
{
    const fake_range_t *r;
    uint64_t id;

    pthread_mutex_lock(&fake_machine.lock);
    r = fake_find_range(addr);
    id = r ? r->id : 0;
    pthread_mutex_unlock(&fake_machine.lock);
    return id;
}

static uint64_t pages(uint64_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

fake_range_t *fake_map_range(dma_gpu_kind_t kind, int device, int fd, uint64_t bytes, void *at)
{
    fake_range_t *r = calloc(1, sizeof(*r));
    void *addr = mmap(at, pages(bytes), PROT_READ | PROT_WRITE, MAP_SHARED | (at ? MAP_FIXED : 0), fd, 0);

    if (!r || addr == MAP_FAILED) {
        fake_misuse("no memory");
    }
    pthread_mutex_lock(&fake_machine.lock);
    *r = (fake_range_t){.next = fake_ranges,
                        .kind = kind,
                        .device = device,
                        .fd = fd,
                        .base = (uintptr_t)addr,
                        .size = bytes,
                        .id = ++last_id};
    fake_ranges = r;
    pthread_mutex_unlock(&fake_machine.lock);
    return r;
}

static void unmap(const char *function, uint64_t base, bool imported, bool keep)
{
    fake_range_t **at = &fake_ranges, *r;

    pthread_mutex_lock(&fake_machine.lock);
    while (*at && (*at)->base != base) {
        at = &(*at)->next;
    }
    r = *at;
    if (!r || (r->kind == DMA_GPU_DEVICE_IMPORTED) != imported) {
        fake_misuse("%s of %#lx, which it did not return", function, base);
    }
    *at = r->next;
    if (r->account) {
        r->account->given -= r->size;
    }
    if (keep) {
        next_at = mmap((void *)(uintptr_t)r->base, pages(r->size), PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        next_room = pages(r->size);
    } else {
        munmap((void *)(uintptr_t)r->base, pages(r->size));
    }
    close(r->fd);
    free(r);
    pthread_mutex_unlock(&fake_machine.lock);
}

void *fake_gpu_alloc(dma_gpu_kind_t kind, int device, uint64_t bytes)
{
    int fd = memfd_create("fake-gpu", MFD_CLOEXEC);
    void *at = next_at;

    if (fd < 0 || ftruncate(fd, (off_t)pages(bytes)) != 0) {
        fake_misuse("no memfd");
    }
    if (at && pages(bytes) > next_room) {
        fake_misuse("%#lx bytes in the place of %#lx", pages(bytes), next_room);
    }
    next_at = NULL;
    return (void *)(uintptr_t)fake_map_range(kind, device, fd, bytes, at)->base;
}

void fake_gpu_split(void *addr, uint64_t bytes)
{
    fake_range_t *r, *rest = calloc(1, sizeof(*rest));

    pthread_mutex_lock(&fake_machine.lock);
    r = fake_find_range((uintptr_t)addr);
    if (!rest || !r || bytes % PAGE || bytes >= r->size) {
        fake_misuse("split of %p at %#lx", addr, bytes);
    }
    *rest = *r;
    rest->next = fake_ranges;
    rest->fd = dup(r->fd);
    rest->base += bytes;
    rest->size -= bytes;
    rest->id = ++last_id;
    r->size = bytes;
    fake_ranges = rest;
    pthread_mutex_unlock(&fake_machine.lock);
}

void fake_gpu_free(void *addr)
{
    unmap("free", (uintptr_t)addr, false, false);
}

void fake_gpu_free_for_next(void *addr)
{
    unmap("free", (uintptr_t)addr, false, true);
}

static dma_status_t query(uint64_t addr, dma_gpu_memory_t *memory)
{
    dma_status_t status;
    fake_range_t *r;

    if (!fake_call("query", &status) && !fake_machine.shut_down) {
        *memory =
            (dma_gpu_memory_t){.kind = DMA_GPU_DEVICE_PLAIN, .base = 1, .size = UINT64_MAX}; /* must not be used */
        return status;
    }
    *memory = (dma_gpu_memory_t){.kind = DMA_GPU_HOST, .device = -1, .device_addr = addr};
    if (fake_machine.shut_down) {
        return DMA_OK;
    }
    pthread_mutex_lock(&fake_machine.lock);
    r = fake_find_range(addr);
    if (r) {
        *memory = (dma_gpu_memory_t){.kind = r->kind,
                                     .device = r->device,
                                     .base = r->maps ? r->home : r->base,
                                     .size = r->maps ? r->maps : r->size,
                                     .buffer_id = r->maps ? r->home_id : r->id,
                                     .device_addr = addr};
    }
    pthread_mutex_unlock(&fake_machine.lock);
    return DMA_OK;
}

static dma_status_t ipc_export(uint64_t base, dma_gpu_handle_t *handle)
{
    dma_status_t status;
    ticket_t ticket;
    fake_range_t *r;

    fake_scope("ipc_export");
    if (!fake_call("ipc_export", &status)) {
        return status;
    }
    pthread_mutex_lock(&fake_machine.lock);
    r = fake_find_range(base);
    if (!r || r->base != base || r->kind != DMA_GPU_DEVICE_PLAIN) {
        fake_misuse("a handle was asked for memory of kind %d at %#lx", r ? (int)r->kind : DMA_GPU_HOST, base);
    }
    ticket = (ticket_t){MAGIC, r->id, r->size, r->fd, r->device};
    pthread_mutex_unlock(&fake_machine.lock);
    memset(handle, 0, sizeof(*handle));
    memcpy(handle, &ticket, sizeof(ticket));
    return DMA_OK;
}

/* The caller holds the lock. As CUDA, it refuses memory that overlaps an import whose owner has freed it. */
static bool overlaps_stale(const fake_range_t *home, int device)
{
    for (const fake_range_t *r = fake_ranges; r; r = r->next) {
        if (r->kind == DMA_GPU_DEVICE_IMPORTED && r->device == device && r->home_device == home->device &&
            r->home_id != home->id && r->home < home->base + home->size && home->base < r->home + r->size) {
            return true;
        }
    }
    return false;
}

static dma_status_t ipc_open(const dma_gpu_handle_t *handle, uint64_t *base)
{
    int fd, device = fake_scope("ipc_open");
    fake_range_t *r, *opened, home = {0};
    dma_status_t status;
    ticket_t ticket;

    if (!fake_call("ipc_open", &status)) {
        return status;
    }
    memcpy(&ticket, handle, sizeof(ticket));
    if (ticket.magic != MAGIC) {
        return DMA_UNSUPPORTED;
    }
    pthread_mutex_lock(&fake_machine.lock);
    for (r = fake_ranges; r && (r->id != ticket.id || r->fd != ticket.fd); r = r->next) {
    }
    fd = r && !overlaps_stale(r, device) ? dup(ticket.fd) : -1;
    home = r ? *r : home;
    pthread_mutex_unlock(&fake_machine.lock);
    if (fd < 0) {
        return DMA_UNSUPPORTED;
    }
    opened = fake_map_range(DMA_GPU_DEVICE_IMPORTED, device, fd, ticket.size, NULL);
    pthread_mutex_lock(&fake_machine.lock);
    opened->home = home.base;
    opened->home_id = home.id;
    opened->home_device = home.device;
    pthread_mutex_unlock(&fake_machine.lock);
    *base = opened->base;
    return DMA_OK;
}

static dma_status_t ipc_close(uint64_t base)
{
    dma_status_t status;

    fake_scope("ipc_close");
    if (!fake_call("ipc_close", &status)) {
        return status;
    }
    unmap("ipc_close", base, true, false);
    return DMA_OK;
}

static dma_status_t host_register(void *addr, uint64_t bytes, uint64_t *device_addr)
{
    dma_status_t status;
    fake_range_t *r;

    fake_scope("host_register");
    if (!fake_call("host_register", &status)) {
        return status;
    }
    r = calloc(1, sizeof(*r));
    if (!r) {
        return DMA_ERR_NOMEM;
    }
    pthread_mutex_lock(&fake_machine.lock);
    *r = (fake_range_t){.next = fake_ranges,
                        .kind = DMA_GPU_HOST_REGISTERED,
                        .device = current,
                        .fd = -1,
                        .base = (uintptr_t)addr,
                        .size = bytes,
                        .id = ++last_id,
                        .account = &fake_pinned};
    fake_ranges = r;
    (void)fake_debit(&fake_pinned, bytes);
    pthread_mutex_unlock(&fake_machine.lock);
    *device_addr = (uintptr_t)addr;
    return DMA_OK;
}

static dma_status_t host_unregister(void *addr)
{
    fake_range_t **at = &fake_ranges, *r;
    dma_status_t status;

    fake_scope("host_unregister");
    if (!fake_call("host_unregister", &status)) {
        return status;
    }
    pthread_mutex_lock(&fake_machine.lock);
    while (*at && ((*at)->base != (uintptr_t)addr || (*at)->kind != DMA_GPU_HOST_REGISTERED)) {
        at = &(*at)->next;
    }
    r = *at;
    if (!r) {
        fake_misuse("host_unregister of %p, which is not registered", addr);
    }
    *at = r->next;
    fake_pinned.given -= r->size;
    pthread_mutex_unlock(&fake_machine.lock);
    free(r);
    return DMA_OK;
}

static dma_status_t alloc(uint64_t bytes, uint64_t *addr)
{
    int device = fake_scope("alloc");
    dma_status_t status;

    if (!fake_call("alloc", &status)) {
        return status;
    }
    pthread_mutex_lock(&fake_machine.lock);
    status = fake_debit(&fake_accounts[device], bytes) ? DMA_OK : DMA_ERR_NOMEM;
    pthread_mutex_unlock(&fake_machine.lock);
    if (status == DMA_OK) {
        *addr = (uintptr_t)fake_gpu_alloc(DMA_GPU_DEVICE_PLAIN, device, bytes);
        pthread_mutex_lock(&fake_machine.lock);
        fake_find_range(*addr)->account = &fake_accounts[device];
        pthread_mutex_unlock(&fake_machine.lock);
    }
    return status;
}

static dma_status_t free_device(uint64_t addr)
{
    dma_status_t status;

    fake_scope("free");
    if (!fake_call("free", &status)) {
        return status;
    }
    unmap("free", addr, false, false);
    return DMA_OK;
}

void fake_gpu_hold(int device, bool hold)
{
    pthread_mutex_lock(&fake_machine.lock);
    fake_machine.held[device] = hold;
    pthread_cond_signal(&fake_machine.work[device]);
    pthread_mutex_unlock(&fake_machine.lock);
}

void fake_gpu_shut_down(void)
{
    pthread_mutex_lock(&fake_machine.lock);
    fake_machine.shut_down = true;
    pthread_mutex_unlock(&fake_machine.lock);
}

dma_gpu_runtime_t *fake_gpu_start(const fake_gpu_options_t *options)
{
    static const dma_gpu_runtime_t fresh = {
        .name = "fake",
        .version = 1,
        .device_count = device_count,
        .device_pci = device_pci,
        .enter = enter,
        .enter_to_release = enter_to_release,
        .leave = leave,
        .query = query,
        .ipc_export = ipc_export,
        .ipc_open = ipc_open,
        .ipc_close = ipc_close,
        .host_register = host_register,
        .host_unregister = host_unregister,
        .alloc = alloc,
        .free = free_device,
    };
    static dma_gpu_runtime_t table;

    table = fresh;
    fake_fill_streams(&table);
    fake_fill_late(&table);
    fake_fill_mapped(&table);
    memset(functions, 0, sizeof(functions));
    fake_accounts_begin();
    memset(fake_machine.held, 0, sizeof(fake_machine.held));
    fake_machine.options = *options;
    fake_machine.random = options->seed | 1;
    fake_machine.stopping = fake_machine.shut_down = fake_machine.may_stay = false;
    for (intptr_t i = 0; i < options->devices; i++) {
        pthread_cond_init(&fake_machine.work[i], NULL);
        pthread_create(&fake_machine.device[i], NULL, fake_device_main, (void *)i);
    }
    return &table;
}

void fake_gpu_may_stay(void)
{
    fake_machine.may_stay = true;
}

void fake_gpu_stop(void)
{
    fake_range_t *r;

    pthread_mutex_lock(&fake_machine.lock);
    fake_machine.stopping = true;
    for (int i = 0; i < fake_machine.options.devices; i++) {
        pthread_cond_signal(&fake_machine.work[i]);
    }
    pthread_mutex_unlock(&fake_machine.lock);
    for (int i = 0; i < fake_machine.options.devices; i++) {
        pthread_join(fake_machine.device[i], NULL);
    }
    if (fake_machine.streams) {
        fake_misuse("a stream is left");
    }
    for (fake_range_t **at = &fake_ranges; fake_machine.may_stay && (r = *at);) {
        if (r->kind != DMA_GPU_HOST_REGISTERED && r->kind != DMA_GPU_DEVICE_IMPORTED) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        if (r->kind == DMA_GPU_DEVICE_IMPORTED) {
            close(r->fd);
        }
        free(r);
    }
    fake_mapped_end();
    if (fake_ranges) {
        fake_misuse("memory of kind %d at %#lx is left", (int)fake_ranges->kind, fake_ranges->base);
    }
}
