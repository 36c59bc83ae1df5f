/*
 * For tests: memory and DMA queues directly from the thunk, or on a given engine from the kernel, as a component would use
 * them, and a few packets. Every failure ends the program with a message.
 */
#ifndef EMU_RAW_H
#define EMU_RAW_H

#include <hsakmt.h>
#include <stddef.h>
#include <stdint.h>

enum { RAW_RING = 64 << 10, RAW_BY_ENGINE = 6, RAW_XGMI = HSA_QUEUE_SDMA_XGMI };

struct raw_queue {
    HsaQueueResource resource;
    char *ring, *pointers; /* pointers: of a queue on a given engine */
    uint64_t written;
};

#define RAW_CHECK(call) raw_check((call), #call, __FILE__, __LINE__)
void raw_check(HSAKMT_STATUS status, const char *call, const char *file, int line);
/* Returns the mask of engines that KFD's files recommend for the link between two GPUs; 0: there is no link. */
unsigned long raw_recommended_engines(int from, int to);
_Noreturn void raw_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Opens the thunk and returns the number of GPUs. Does not acquire the topology if a runtime has done so. */
int raw_open(void);

/* Allocates memory on a node, mapped for the node `mapped`, or for all GPUs if `mapped` is 0. */
void *raw_allocate(uint32_t node, size_t bytes, uint32_t mapped);
void raw_map(void *memory, size_t bytes, uint32_t mapped);

/* Creates a queue with a ring. `engine` is used only for RAW_BY_ENGINE. */
HSAKMT_STATUS raw_try_queue(struct raw_queue *queue, uint32_t node, int type, uint32_t engine);
void raw_queue(struct raw_queue *queue, uint32_t node, int type, uint32_t engine);
void raw_destroy(struct raw_queue *queue);

void raw_put(struct raw_queue *queue, const uint32_t *packet, unsigned dwords);
void raw_copy(struct raw_queue *queue, void *to, const void *from, uint32_t bytes);
void raw_fence(struct raw_queue *queue, void *at, uint32_t value);
void raw_poll(struct raw_queue *queue, void *at, uint32_t least);
void raw_ring(struct raw_queue *queue);

/* Waits some seconds for a word to have a value. False: it does not. */
int raw_wait(const void *at, uint32_t value);

#endif
