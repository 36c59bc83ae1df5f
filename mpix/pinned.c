/* Whether host memory of a runtime is still there; see pinned.h. */
#include "pinned.h"

#include <mpix_dma.h>

#include "stream.h"

/* Equal in HIP and in CUDA's driver. */
enum { DONE = 0, BUFFER_ID = 7 };

typedef struct runtime {
    int (*address)(void **there, void *memory, unsigned flags);
    int (*attribute)(void *data, int attribute, void *memory);
    int (*last_error)(void); /* HIP keeps an error for the program, which has not made these calls */
} runtime_t;

static runtime_t runtime_of(int type)
{
    runtime_t found = {0};
    const mpix_symbol_t hip[] = {
        {"hipHostGetDevicePointer", &found.address, false},
        {"hipPointerGetAttribute", &found.attribute, false},
        {"hipGetLastError", &found.last_error, false},
        {0},
    };
    const mpix_symbol_t cuda[] = {
        {"cuMemHostGetDevicePointer_v2", &found.address, false},
        {"cuPointerGetAttribute", &found.attribute, false},
        {0},
    };

    (void)mpix_runtime_fill(type, type == MPIX_QUEUE_HIP ? hip : cuda);
    return found;
}

mpix_pinned_t mpix_pinned_look(int type, void *memory)
{
    runtime_t runtime = runtime_of(type);
    mpix_pinned_t seen = {0};
    void *there = NULL;

    if (runtime.address && runtime.address(&there, memory, 0) == DONE) {
        seen.there = (uintptr_t)there;
    }
    if (runtime.attribute && runtime.attribute(&seen.id, BUFFER_ID, memory) != DONE) {
        seen.id = 0;
    }
    if (runtime.last_error) {
        (void)runtime.last_error();
    }
    return seen;
}

bool mpix_pinned_is(int type, void *memory, mpix_pinned_t allocated)
{
    mpix_pinned_t now = mpix_pinned_look(type, memory);

    return now.there == allocated.there && now.id == allocated.id;
}
