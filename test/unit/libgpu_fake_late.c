/*
 * The fake runtime: synchronous copies of the application whose bytes arrive late, as in CUDA for copies from pageable
 * memory. The bytes arrive when the application waits for its default stream, when the test says so, and before `adopt`
 * returns. In memory that was adopted, they arrive at once.
 */
#include <stdlib.h>
#include <string.h>

#include "libgpu_fake_internal.h"

#define ADOPTED 4096

typedef struct late_copy {
    struct late_copy *next;
    void *to;
    uint64_t id, bytes;
    char data[];
} late_copy_t;

static late_copy_t *late; /* guarded by the machine's lock */
static uint64_t adopted[ADOPTED];
static unsigned n_adopted;

/* The caller holds the lock. `id` 0: all of them. */
static void arrive(uint64_t id)
{
    for (late_copy_t **at = &late, *c; (c = *at);) {
        if (id && c->id != id) {
            at = &c->next;
            continue;
        }
        memcpy(c->to, c->data, c->bytes);
        *at = c->next;
        free(c);
    }
}

/* The caller holds the lock. */
static bool is_adopted(uint64_t id)
{
    for (unsigned i = 0; i < n_adopted && i < ADOPTED; i++) {
        if (adopted[i] == id) {
            return true;
        }
    }
    return false;
}

void fake_gpu_copy_late(void *to, const void *from, uint64_t bytes)
{
    late_copy_t *c = malloc(sizeof(*c) + bytes), **last = &late;
    uint64_t id = fake_buffer_id((uintptr_t)to);

    if (!c || !id) {
        fake_misuse("a late copy to %p", to);
    }
    pthread_mutex_lock(&fake_machine.lock);
    *c = (late_copy_t){.to = to, .id = id, .bytes = bytes};
    memcpy(c->data, from, bytes);
    while (*last) {
        last = &(*last)->next;
    }
    *last = c;
    if (is_adopted(id)) {
        arrive(id);
    }
    pthread_mutex_unlock(&fake_machine.lock);
}

void fake_gpu_arrive(void)
{
    pthread_mutex_lock(&fake_machine.lock);
    arrive(0);
    pthread_mutex_unlock(&fake_machine.lock);
}

static void adopt(const dma_gpu_memory_t *memory)
{
    dma_status_t status;

    if (!fake_call("adopt", &status)) {
        return;
    }
    if (!dma_gpu_kind_on_device(memory->kind)) {
        fake_misuse("adopt of memory of kind %d", (int)memory->kind);
    }
    pthread_mutex_lock(&fake_machine.lock);
    if (!is_adopted(memory->buffer_id)) {
        adopted[n_adopted++ % ADOPTED] = memory->buffer_id; /* the oldest is the one most likely to be freed */
    }
    arrive(memory->buffer_id);
    pthread_mutex_unlock(&fake_machine.lock);
}

void fake_fill_late(dma_gpu_runtime_t *table)
{
    n_adopted = 0;
    table->adopt = adopt;
}
