/* Of the fake GPU: which bytes of watched memory its copies have written. */
#include "libgpu_fake_internal.h"

static struct {
    uint64_t addr, bytes;
    uint8_t *written;
} watches[FAKE_GPU_WATCHES];

void fake_gpu_watch(const void *addr, uint64_t bytes, uint8_t *written)
{
    int i = 0;

    pthread_mutex_lock(&fake_machine.lock);
    while (i < FAKE_GPU_WATCHES && (written ? watches[i].written != NULL : watches[i].addr != (uintptr_t)addr)) {
        i++;
    }
    if (i == FAKE_GPU_WATCHES) {
        fake_misuse("%p cannot be watched", addr);
    }
    watches[i].addr = written ? (uintptr_t)addr : 0;
    watches[i].bytes = bytes;
    watches[i].written = written;
    pthread_mutex_unlock(&fake_machine.lock);
}

void fake_note_written(uint64_t dst, uint64_t bytes)
{
    pthread_mutex_lock(&fake_machine.lock);
    for (int i = 0; i < FAKE_GPU_WATCHES; i++) {
        for (uint64_t k = 0; watches[i].written && k < bytes; k++) {
            if (dst + k - watches[i].addr < watches[i].bytes) {
                watches[i].written[dst + k - watches[i].addr] = 1;
            }
        }
    }
    pthread_mutex_unlock(&fake_machine.lock);
}
