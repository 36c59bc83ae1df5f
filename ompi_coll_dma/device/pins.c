/* Pinned host memory: see pins.h. Functions here have the device lock, unless pins.h declares them. */
#include "device/pins.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "node/pause.h"

#define PAGE        UINT64_C(4096)
#define SLOTS_MOST  (UINT64_C(8) << 20) /* bytes of both slots; the processor copies half of it while the engine does */
#define SLOTS_LEAST (UINT64_C(256) << 10) /* smaller slots take longer to start than to copy */

/* ---- making and freeing ---- */

/* In scope. */
static void destroy_objects(const dma_pin_t *p)
{
    for (int i = 0; i < 2; i++) {
        if (p->event[i]) {
            (void)p->rt->event_destroy(p->event[i]);
        }
    }
    if (p->stream) {
        (void)p->rt->stream_destroy(p->stream);
    }
    (void)p->rt->host_unregister(p->memory);
}

/* In scope. */
static dma_status_t create_objects(dma_pin_t *p)
{
    uint64_t at;
    dma_status_t status = p->rt->host_register(p->memory, p->bytes, &at);

    if (status != DMA_OK) {
        return status;
    }
    if ((status = p->rt->stream_create(&p->stream)) != DMA_OK) {
        p->stream = NULL;
    }
    for (int i = 0; status == DMA_OK && i < 2; i++) {
        if ((status = p->rt->event_create(&p->event[i])) != DMA_OK) {
            p->event[i] = NULL;
        }
    }
    if (status != DMA_OK) {
        destroy_objects(p);
    }
    return status;
}

static void free_pin(dma_proc_t *proc, dma_pin_t **link)
{
    dma_pin_t *p = *link;
    dma_gpu_scope_t scope;

    *link = p->next;
    /* If the scope cannot be entered, the application has shut the runtime down, which has released everything. */
    if (p->rt->enter_to_release(p->device, &scope) == DMA_OK) {
        destroy_objects(p);
        p->rt->leave(&scope);
    }
    munmap(p->memory, p->bytes);
    dma_budget_give(&proc->budget, DMA_BUDGET_PINNED, p->bytes);
    free(p);
}

static dma_status_t fill_pin(dma_pin_t *p)
{
    dma_gpu_scope_t scope;
    dma_status_t status;

    p->memory = mmap(NULL, p->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p->memory == MAP_FAILED) {
        return DMA_ERR_NOMEM;
    }
    if ((status = p->rt->enter(p->device, &scope)) == DMA_OK) {
        status = create_objects(p);
        p->rt->leave(&scope);
    }
    if (status != DMA_OK) {
        munmap(p->memory, p->bytes);
    }
    return status;
}

static dma_pin_t *create_pin(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device, uint64_t bytes)
{
    dma_pin_t *p;

    if (!dma_budget_take(&proc->budget, DMA_BUDGET_PINNED, bytes)) {
        return NULL;
    }
    if ((p = calloc(1, sizeof(*p)))) {
        p->rt = rt;
        p->device = device;
        p->bytes = bytes;
        p->resets = dma_gpu_resets(rt, device);
    }
    if (!p || fill_pin(p) != DMA_OK) {
        dma_budget_give(&proc->budget, DMA_BUDGET_PINNED, bytes);
        free(p);
        return NULL;
    }
    p->next = proc->pins;
    return proc->pins = p;
}

/* ---- choosing ---- */

static bool is_of(const dma_pin_t *p, const dma_gpu_runtime_t *rt, int device)
{
    return p->rt == rt && p->device == device;
}

/* Frees idle blocks of a device: all, or those that a reset has destroyed. */
static void free_idle_of(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device, bool all)
{
    unsigned resets = dma_gpu_resets(rt, device);

    for (dma_pin_t **link = &proc->pins; *link;) {
        if (!(*link)->busy && is_of(*link, rt, device) && (all || (*link)->resets != resets)) {
            free_pin(proc, link);
        } else {
            link = &(*link)->next;
        }
    }
}

/* Frees the idle block that has not been used for longest. False: there is none. */
static bool free_oldest(dma_proc_t *proc)
{
    dma_pin_t **oldest = NULL;

    for (dma_pin_t **link = &proc->pins; *link; link = &(*link)->next) {
        if (!(*link)->busy && (!oldest || (*link)->used < (*oldest)->used)) {
            oldest = link;
        }
    }
    if (oldest) {
        free_pin(proc, oldest);
    }
    return oldest != NULL;
}

/* The smallest idle block of at least `bytes` bytes, else NULL. */
static dma_pin_t *find_idle(const dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device, uint64_t bytes)
{
    dma_pin_t *best = NULL;

    for (dma_pin_t *p = proc->pins; p; p = p->next) {
        if (!p->busy && is_of(p, rt, device) && p->bytes >= bytes && (!best || p->bytes < best->bytes)) {
            best = p;
        }
    }
    return best;
}

/* What calls could have if no block were idle. */
static uint64_t allowance(const dma_proc_t *proc)
{
    uint64_t left = dma_budget_left(&proc->budget, DMA_BUDGET_PINNED);

    for (const dma_pin_t *p = proc->pins; p; p = p->next) {
        left += p->busy ? 0 : p->bytes;
    }
    return left;
}

/* Half as large again as needed, if that leaves as much to others: pinning takes time. */
static dma_pin_t *make_room(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device, uint64_t bytes)
{
    uint64_t most = allowance(proc);

    if (bytes > most) {
        return NULL;
    }
    bytes = bytes <= most / 2 ? (bytes + bytes / 2) / PAGE * PAGE : bytes;
    free_idle_of(proc, rt, device, true); /* all are too small */
    while (dma_budget_left(&proc->budget, DMA_BUDGET_PINNED) < bytes && free_oldest(proc)) {
    }
    return create_pin(proc, rt, device, bytes);
}

/* ---- for calls; without the lock ---- */

dma_pin_t *dma_pin_get(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device, uint64_t bytes)
{
    dma_pin_t *p;

    if (bytes > UINT64_MAX - PAGE) {
        return NULL;
    }
    bytes = (bytes + PAGE - 1) / PAGE * PAGE + (bytes ? 0 : PAGE);
    pthread_mutex_lock(&proc->device_lock);
    free_idle_of(proc, rt, device, false);
    p = find_idle(proc, rt, device, bytes);
    p = p ? p : make_room(proc, rt, device, bytes);
    if (p) {
        p->busy = true;
        p->used = ++proc->scratch_uses;
    }
    pthread_mutex_unlock(&proc->device_lock);
    return p;
}

dma_pin_t *dma_pin_get_slots(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device)
{
    dma_pin_t *p = NULL;

    for (uint64_t bytes = SLOTS_MOST; !p && bytes >= SLOTS_LEAST; bytes /= 2) {
        p = dma_pin_get(proc, rt, device, bytes);
    }
    return p;
}

void dma_pin_put(dma_proc_t *proc, dma_pin_t *p)
{
    dma_gpu_scope_t scope;

    /* After an error. Query first: a stream that a reset of the device has destroyed must not be synchronized. */
    if (p->copies && p->rt->enter_to_release(p->device, &scope) == DMA_OK) {
        if (p->rt->stream_query(p->stream) == DMA_AGAIN) {
            (void)dma_pin_end(p);
        }
        p->copies = false;
        p->rt->leave(&scope);
    }
    pthread_mutex_lock(&proc->device_lock);
    p->busy = false;
    pthread_mutex_unlock(&proc->device_lock);
}

void dma_pins_trim(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device)
{
    free_idle_of(proc, rt, device, true);
}

void dma_pins_destroy(dma_proc_t *proc)
{
    while (free_oldest(proc)) {
    }
}

/* ---- copies ---- */

dma_status_t dma_pin_start(dma_pin_t *p, const void *to, const void *from, uint64_t bytes)
{
    p->copies = true;
    return p->rt->copy_async(p->stream, (uint64_t)(uintptr_t)to, (uint64_t)(uintptr_t)from, bytes);
}

dma_status_t dma_pin_end(dma_pin_t *p)
{
    dma_status_t status = p->rt->stream_sync(p->stream);

    p->copies = status != DMA_OK;
    return status;
}

/* Starts the copy of a slot. */
static dma_status_t start_slot(dma_pin_t *p, unsigned slot, const void *to, const void *from, uint64_t bytes)
{
    dma_status_t status = dma_pin_start(p, to, from, bytes);

    return status == DMA_OK ? p->rt->event_record(p->event[slot], p->stream) : status;
}

static dma_status_t wait_slot(const dma_pin_t *p, unsigned slot)
{
    dma_pause_t pause = {0};
    dma_status_t status;

    while ((status = p->rt->event_query(p->event[slot])) == DMA_AGAIN) {
        dma_pause(&pause);
    }
    return status;
}

static uint64_t slot_bytes(const dma_pin_t *p)
{
    uint64_t bytes = p->bytes < SLOTS_MOST ? p->bytes : SLOTS_MOST;

    return bytes / 2;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

dma_status_t dma_pin_read(dma_pin_t *p, char *to, const char *from, uint64_t bytes)
{
    uint64_t slot = slot_bytes(p), started = 0;
    dma_status_t status = DMA_OK;
    unsigned next = 0;

    for (uint64_t done = 0; status == DMA_OK && done < bytes;) {
        uint64_t n = least(bytes - done, slot);

        /* at most two pieces ahead: what is in the other slot has been copied out */
        while (status == DMA_OK && started < bytes && started < done + 2 * slot) {
            uint64_t more = least(bytes - started, slot);

            status = start_slot(p, next, p->memory + next * slot, from + started, more);
            started += more;
            next ^= 1;
        }
        if (status == DMA_OK && (status = wait_slot(p, (unsigned)(done / slot % 2))) == DMA_OK) {
            memcpy(to + done, p->memory + done / slot % 2 * slot, n);
        }
        done += n;
    }
    p->copies = status != DMA_OK;
    return status;
}

dma_status_t dma_pin_write(dma_pin_t *p, char *to, const char *from, uint64_t bytes)
{
    uint64_t slot = slot_bytes(p);
    dma_status_t status = DMA_OK, ended;

    for (uint64_t done = 0; status == DMA_OK && done < bytes; done += slot) {
        unsigned at = (unsigned)(done / slot % 2);
        char *memory = p->memory + at * slot;
        uint64_t n = least(bytes - done, slot);

        if (done >= 2 * slot) {
            status = wait_slot(p, at);
        }
        if (status == DMA_OK) {
            memcpy(memory, from + done, n);
            status = start_slot(p, at, to + done, memory, n);
        }
    }
    ended = dma_pin_end(p);
    return status == DMA_OK ? ended : status;
}
