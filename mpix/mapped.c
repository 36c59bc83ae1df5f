/* Memory that kernels and the host share; see mapped.h. */
#include "mapped.h"

#include <mpix_dma.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "pinned.h"
#include "stream.h"

/* The flags portable and mapped. For HIP also coherent, so that the host sees stores of a kernel while it runs. */
enum { DONE = 0, HIP_FLAGS = 1 | 2 | 0x40000000, CUDA_FLAGS = 1 | 2, LINE = 64, ROOM_FOR_ATTRIBUTES = 512 };

static struct {
    int (*alloc)(void **memory, size_t bytes, unsigned flags);
    int (*release)(void *memory);
    int (*address)(void **there, void *memory, unsigned flags);
    int (*attributes)(void *attributes, const void *memory);
    int (*last_error)(void);
} hip;

static struct {
    int (*get_context)(void **context);
    int (*alloc)(void **memory, size_t bytes, unsigned flags);
    int (*release)(void *memory);
    int (*address)(uint64_t *there, void *memory, unsigned flags);
} cuda;

static const mpix_symbol_t hip_symbols[] = {
    {"hipPointerGetAttributes", &hip.attributes, true},
    {"hipGetLastError", &hip.last_error, true},
    {"hipHostMalloc", &hip.alloc, false},
    {"hipHostFree", &hip.release, false},
    {"hipHostGetDevicePointer", &hip.address, false},
    {NULL, NULL, false},
};
static const mpix_symbol_t cuda_symbols[] = {
    {"cuCtxGetCurrent", &cuda.get_context, true},
    {"cuMemHostAlloc", &cuda.alloc, false},
    {"cuMemFreeHost", &cuda.release, false},
    {"cuMemHostGetDevicePointer_v2", &cuda.address, false},
    {NULL, NULL, false},
};

typedef struct piece {
    struct piece *next;
    void *at;
    size_t bytes;
    int type; /* whose kernels can use it */
    bool used;
    mpix_pinned_t allocated;
} piece_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static piece_t *pieces;

/* The first member of the attributes is the type of memory: 0 for host memory and for memory that HIP does not know. */
static bool is_of_hip(const void *buffer)
{
    int attributes[ROOM_FOR_ATTRIBUTES / sizeof(int)] = {0};

    if (buffer == MPI_IN_PLACE || !buffer) {
        return false;
    }
    if (hip.attributes(attributes, buffer) != DONE) {
        (void)hip.last_error();
        return false;
    }
    return attributes[0] != 0;
}

int mpix_mapped_type(const void *one, const void *other)
{
    void *context = NULL;
    int type = MPIX_QUEUE_THREAD;

    pthread_mutex_lock(&lock);
    if (mpix_runtime_fill(MPIX_QUEUE_CUDA, cuda_symbols) && cuda.get_context(&context) == DONE && context) {
        type = MPIX_QUEUE_CUDA;
    } else if (mpix_runtime_fill(MPIX_QUEUE_HIP, hip_symbols) && (is_of_hip(one) || is_of_hip(other))) {
        type = MPIX_QUEUE_HIP;
    }
    pthread_mutex_unlock(&lock);
    return type;
}

/* Returns why kernels cannot use the memory, or NULL. */
static const char *alloc_hip(void **memory, size_t bytes)
{
    void *there = NULL;

    if (!hip.alloc || !hip.release || !hip.address) {
        return "the runtime cannot map memory of the host";
    }
    if (hip.alloc(memory, bytes, HIP_FLAGS) != DONE) {
        (void)hip.last_error();
        return "the runtime refuses memory that it maps";
    }
    if (hip.address(&there, *memory, 0) != DONE || there != *memory) {
        (void)hip.release(*memory);
        return "the device has another address for them";
    }
    return NULL;
}

static const char *alloc_cuda(void **memory, size_t bytes)
{
    uint64_t there = 0;

    if (!cuda.alloc || !cuda.release || !cuda.address) {
        return "the runtime cannot map memory of the host";
    }
    if (cuda.alloc(memory, bytes, CUDA_FLAGS) != DONE) {
        return "the runtime refuses memory that it maps";
    }
    if (cuda.address(&there, *memory, 0) != DONE || there != (uintptr_t)*memory) {
        (void)cuda.release(*memory);
        return "the device has another address for them";
    }
    return NULL;
}

static void *alloc_lines(size_t bytes)
{
    void *memory = NULL;

    return posix_memalign(&memory, LINE, bytes) == 0 ? memory : NULL;
}

static piece_t *make_piece(int type, size_t bytes)
{
    const char *why = NULL;
    piece_t *piece = calloc(1, sizeof(*piece));

    if (!piece) {
        return NULL;
    }
    if (type != MPIX_QUEUE_THREAD) {
        why = type == MPIX_QUEUE_HIP ? alloc_hip(&piece->at, bytes) : alloc_cuda(&piece->at, bytes);
    }
    if (why) {
        mpix_tell("kernels cannot use the words of a partitioned request", why);
    }
    if (why || type == MPIX_QUEUE_THREAD) {
        piece->at = alloc_lines(bytes);
        type = MPIX_QUEUE_THREAD;
    }
    if (!piece->at) {
        free(piece);
        return NULL;
    }
    if (type != MPIX_QUEUE_THREAD) {
        piece->allocated = mpix_pinned_look(type, piece->at);
    }
    piece->type = type;
    piece->bytes = bytes;
    piece->next = pieces;
    pieces = piece;
    return piece;
}

/* A piece that nobody uses, or NULL. Pieces that a reset of the device has freed are forgotten. */
static piece_t *find_piece(int type, size_t bytes)
{
    piece_t **at = &pieces, *piece;

    while ((piece = *at)) {
        if (piece->used || piece->type != type || piece->bytes < bytes) {
            at = &piece->next;
        } else if (type == MPIX_QUEUE_THREAD || mpix_pinned_is(type, piece->at, piece->allocated)) {
            return piece;
        } else {
            *at = piece->next;
            free(piece);
        }
    }
    return NULL;
}

void *mpix_mapped_alloc(int type, size_t bytes, bool *mapped)
{
    piece_t *piece;
    void *memory = NULL;

    bytes = (bytes + LINE - 1) / LINE * LINE;
    pthread_mutex_lock(&lock);
    piece = find_piece(type, bytes);
    piece = piece ? piece : make_piece(type, bytes);
    if (piece) {
        piece->used = true;
        *mapped = piece->type == type;
        memory = memset(piece->at, 0, bytes);
    }
    pthread_mutex_unlock(&lock);
    return memory;
}

void mpix_mapped_free(void *memory)
{
    pthread_mutex_lock(&lock);
    for (piece_t *piece = pieces; memory && piece; piece = piece->next) {
        if (piece->at == memory) {
            piece->used = false;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
}
