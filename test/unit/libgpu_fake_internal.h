/* What the files of the fake runtime share. */
#ifndef DMA_TEST_LIBGPU_FAKE_INTERNAL_H
#define DMA_TEST_LIBGPU_FAKE_INTERNAL_H

#include <pthread.h>

#include "libgpu_fake.h"

typedef struct fake_stream fake_stream_t;

typedef struct fake_machine {
    pthread_mutex_t lock;                      /* guards everything, including the streams */
    pthread_cond_t changed;                    /* work was done */
    pthread_cond_t work[FAKE_GPU_MAX_DEVICES]; /* a device has more work, is held no more, or shall stop */
    fake_gpu_options_t options;
    uint64_t random;
    bool stopping, shut_down, may_stay;
    bool held[FAKE_GPU_MAX_DEVICES];
    pthread_t device[FAKE_GPU_MAX_DEVICES];
    fake_stream_t *streams;
} fake_machine_t;

extern fake_machine_t fake_machine;

/* Aborts with a line, because the test has found a misuse. */
void fake_misuse(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* Counts the call. False, with the status to return, if the test wants the call to fail. */
bool fake_call(const char *function, dma_status_t *status);

/* The device in scope; misuse if there is none. */
int fake_scope(const char *function);
/* Has the application reset the device? */
bool fake_is_lost(int device);

uint64_t fake_random(void);

/* Reports a misuse unless [addr, addr + bytes) is host memory or lies inside one allocation. */
void fake_check_range(const char *function, uint64_t addr, uint64_t bytes);

/* Of the allocation that contains the address; 0: none. */
uint64_t fake_buffer_id(uint64_t addr);

#define FAKE_PAGE 4096u

typedef struct fake_account fake_account_t;

/* An allocation, or a part of virtually mapped memory. */
typedef struct fake_range {
    struct fake_range *next;
    dma_gpu_kind_t kind;
    int device, fd;
    uint64_t base, size, id;
    uint64_t home, home_id;  /* imported: the address at the owner, */
    int home_device;         /* and who may open it, by device */
    fake_account_t *account; /* NULL: memory of the test */
    uint64_t maps;           /* a part of a reservation of so many bytes at `home`, whose id does not change; 0: none */
    bool shareable;
} fake_range_t;

extern fake_range_t *fake_ranges;

/* The caller holds the lock. */
fake_range_t *fake_find_range(uint64_t addr);
/* Takes over `fd`. `at`: the address, or NULL. */
fake_range_t *fake_map_range(dma_gpu_kind_t kind, int device, int fd, uint64_t bytes, void *at);

/* Memory that the table gives and gets back, on a device and pinned. The caller holds the lock. */
struct fake_account {
    uint64_t given, most, room;
};

extern fake_account_t fake_accounts[FAKE_GPU_MAX_DEVICES], fake_pinned;
void fake_accounts_begin(void);
/* False: there is no room. */
bool fake_debit(fake_account_t *a, uint64_t bytes);

/* Recorded `recorded` times, reached up to `reached`, then at `ns`. */
struct dma_gpu_event {
    bool timed;
    uint64_t recorded, reached;
    unsigned waits; /* of streams for it */
    double ns;
};

/* The clock of all devices; under the lock. */
double fake_now(void);

/* libgpu_fake_watch.c */
void fake_note_written(uint64_t dst, uint64_t bytes);

void fake_fill_events(dma_gpu_runtime_t *table);
void fake_fill_streams(dma_gpu_runtime_t *table);
void fake_fill_late(dma_gpu_runtime_t *table);
void fake_fill_mapped(dma_gpu_runtime_t *table);
/* Reports a misuse if a reservation is left. */
void fake_mapped_end(void);
void *fake_device_main(void *device);

#endif
