/*
 * fake_check LIBRARY: does the fake CUDA (fake_cuda.c) refuse, block and share what CUDA does? Two processes, without MPI. Prints
 * "fake_check: N checks, M failed".
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake_cuda.h"

enum { BYTES = 100000, BLOCKED_US = 100000, PATIENCE = 20000, LARGE = 3 << 20 };

#define ROW_MEMBER(name, symbol, required, ...) cuda_error_t (*symbol)(__VA_ARGS__);
#define MORE_MEMBER(symbol, ...)                cuda_error_t (*symbol)(__VA_ARGS__);
#define ROW_NAME(name, symbol, required, ...)   #symbol,
#define MORE_NAME(symbol, ...)                  #symbol,
static struct {
    CUDA_CALLS(ROW_MEMBER) FAKE_MORE_CALLS(MORE_MEMBER)
} cu;
static const char *const names[] = {CUDA_CALLS(ROW_NAME) FAKE_MORE_CALLS(MORE_NAME)};
static void *(*host_address)(uint64_t addr);
static int checks, failed, peer;

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        checks++;                                                                                                      \
        if (!(condition)) {                                                                                            \
            failed++;                                                                                                  \
            fprintf(stderr, "fake_check: line %d: not true: %s\n", __LINE__, #condition);                              \
        }                                                                                                              \
    } while (0)

static void open_library(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);

    if (!library) {
        fprintf(stderr, "fake_check: %s\n", dlerror());
        exit(2);
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        ((void **)&cu)[i] = dlsym(library, names[i]);
    }
    *(void **)&host_address = dlsym(library, "fake_host_address");
}

/* ---- one process ---- */

static struct CUctx_st *context;

static void contexts(void)
{
    struct CUctx_st *popped = NULL;
    cuda_addr_t memory;
    int n = 0, active = 0;
    unsigned flags;

    CHECK(cu.cuDeviceGetCount(&n) == CUDA_NOT_INITIALIZED);
    CHECK(cu.cuInit(0) == CUDA_DONE && cu.cuDeviceGetCount(&n) == CUDA_DONE && n == FAKE_DEVICES);
    CHECK(cu.cuMemAlloc_v2(&memory, 8) == CUDA_INVALID_CONTEXT);
    CHECK(cu.cuDevicePrimaryCtxGetState(1, &flags, &active) == CUDA_DONE && !active);
    CHECK(cu.cuDevicePrimaryCtxRetain(&context, 1) == CUDA_DONE && cu.cuCtxPushCurrent_v2(context) == CUDA_DONE);
    CHECK(cu.cuDevicePrimaryCtxGetState(1, &flags, &active) == CUDA_DONE && active);
    CHECK(cu.cuCtxGetDevice(&n) == CUDA_DONE && n == 1);
    CHECK(cu.cuMemAlloc_v2(&memory, 8) == CUDA_DONE && cu.cuMemFree_v2(memory) == CUDA_DONE);
    CHECK(cu.cuCtxPopCurrent_v2(&popped) == CUDA_DONE && popped == context);
    CHECK(cu.cuMemAlloc_v2(&memory, 8) == CUDA_INVALID_CONTEXT);
    CHECK(cu.cuCtxSetCurrent(context) == CUDA_DONE);
}

/* A process that touches device memory ends. */
static void unreachable(void)
{
    cuda_addr_t memory;
    int status = 0;
    pid_t child;

    CHECK(cu.cuMemAlloc_v2(&memory, 8) == CUDA_DONE);
    child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        *(volatile char *)(uintptr_t)memory = 1;
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    *(volatile char *)host_address(memory) = 1;
    CHECK(cu.cuMemFree_v2(memory) == CUDA_DONE);
}

static void copies(void)
{
    struct CUstream_st *stream;
    char *from = malloc(BYTES), *to = calloc(1, BYTES);
    cuda_addr_t memory = 0, other = 0;

    for (int i = 0; i < BYTES; i++) {
        from[i] = (char)(i * 7 + i / 256);
    }
    CHECK(cu.cuStreamCreate(&stream, CUDA_STREAM_NON_BLOCKING) == CUDA_DONE);
    CHECK(cu.cuMemAlloc_v2(&memory, BYTES) == CUDA_DONE && cu.cuMemAlloc_v2(&other, BYTES) == CUDA_DONE);
    CHECK(cu.cuMemcpyAsync(memory, (uintptr_t)from, BYTES, stream) == CUDA_DONE);
    CHECK(cu.cuMemcpyAsync(other, memory, BYTES, stream) == CUDA_DONE);
    CHECK(cu.cuMemcpyAsync((uintptr_t)to, other, BYTES, stream) == CUDA_DONE);
    CHECK(cu.cuStreamSynchronize(stream) == CUDA_DONE && !memcmp(from, to, BYTES));
    CHECK(!memcmp(host_address(other), from, BYTES));
    CHECK(cu.cuMemcpyAsync(memory, (uintptr_t)from, BYTES + 1, stream) == FAKE_INVALID);
    CHECK(cu.cuMemFree_v2(memory) == CUDA_DONE && cu.cuMemFree_v2(memory) == FAKE_INVALID);
    CHECK(cu.cuMemcpyAsync(memory, (uintptr_t)from, 8, stream) == FAKE_INVALID);
    CHECK(cu.cuMemFree_v2(other) == CUDA_DONE && cu.cuStreamDestroy_v2(stream) == CUDA_DONE);
    CHECK(cu.cuStreamQuery(stream) == FAKE_BAD_HANDLE);
    free(from);
    free(to);
}

static cuda_word_t word(cuda_enum_t code, cuda_addr_t addr, uint32_t value)
{
    return (cuda_word_t){.what = {.code = code, .addr = addr, .value = value}};
}

static void words(void)
{
    static _Alignas(64) uint32_t plain[16];
    struct CUstream_st *stream;
    cuda_addr_t there = 0;

    CHECK(cu.cuStreamCreate(&stream, CUDA_STREAM_NON_BLOCKING) == CUDA_DONE);
    CHECK(cu.cuStreamWriteValue32_v2(stream, (uintptr_t)plain, 1, 0) == FAKE_INVALID);
    CHECK(cu.cuStreamWaitValue32_v2(stream, (uintptr_t)plain, 1, 0) == FAKE_INVALID);
    CHECK(cu.cuMemHostRegister_v2(plain, sizeof(plain), FAKE_MAPPED) == CUDA_DONE);
    CHECK(cu.cuMemHostRegister_v2(plain + 1, 4, FAKE_MAPPED) == FAKE_REGISTERED);
    CHECK(cu.cuMemHostGetDevicePointer_v2(&there, plain, 0) == CUDA_DONE && there == (uintptr_t)plain);
    CHECK(cu.cuStreamWriteValue32_v2(stream, there, UINT32_MAX, 0) == CUDA_DONE);
    CHECK(cu.cuStreamWaitValue32_v2(stream, there, UINT32_MAX - 3, 0) == CUDA_DONE); /* cyclic */
    CHECK(cu.cuStreamWriteValue32_v2(stream, there, 5, 0) == CUDA_DONE);
    CHECK(cu.cuStreamWaitValue32_v2(stream, there, UINT32_MAX, 0) == CUDA_DONE);
    CHECK(cu.cuStreamWaitValue32_v2(stream, there, 5, 1) == CUDA_DONE);
    CHECK(cu.cuStreamSynchronize(stream) == CUDA_DONE && plain[0] == 5);
    /* Of several operations, nothing is submitted if one is wrong. */
    CHECK(cu.cuStreamBatchMemOp_v2(stream, 2, (cuda_word_t[]){word(2, there, 6), word(2, (uintptr_t)(plain + 16), 6)},
                                   0) == FAKE_INVALID);
    CHECK(cu.cuStreamBatchMemOp_v2(stream, 1, (cuda_word_t[]){word(7, there, 6)}, 0) == FAKE_INVALID);
    CHECK(cu.cuStreamSynchronize(stream) == CUDA_DONE && plain[0] == 5);
    CHECK(cu.cuStreamBatchMemOp_v2(stream, 3,
                                   (cuda_word_t[]){word(2, there, 7), word(2, there + 4, 8), word(1, there + 4, 7)},
                                   0) == CUDA_DONE);
    CHECK(cu.cuStreamSynchronize(stream) == CUDA_DONE && plain[0] == 7 && plain[1] == 8);
    CHECK(cu.cuMemHostUnregister(plain) == CUDA_DONE && cu.cuStreamDestroy_v2(stream) == CUDA_DONE);
}

/* ---- calls that wait for streams that wait ---- */

typedef struct attempt {
    cuda_error_t (*call)(struct attempt *attempt);
    cuda_addr_t memory;
    struct CUstream_st *stream, *waits;
    int done, thread;
} attempt_t;

static cuda_error_t try_free(attempt_t *a)
{
    return cu.cuMemFree_v2(a->memory);
}

static cuda_error_t try_free_host(attempt_t *a)
{
    return cu.cuMemFreeHost((void *)(uintptr_t)a->memory);
}

static cuda_error_t try_unregister(attempt_t *a)
{
    return cu.cuMemHostUnregister((void *)(uintptr_t)a->memory);
}

static void kernel(void *arg)
{
    *(int *)arg += 1;
}

static int launched;

static cuda_error_t try_launch(attempt_t *a)
{
    void *arg = &launched, *arguments[] = {&arg};

    return cu.cuLaunchKernel((struct CUfunc_st *)(void *)kernel, 1, 1, 1, 1, 1, 1, 0, a->stream, arguments, NULL);
}

static cuda_error_t try_copy(attempt_t *a)
{
    return cu.cuMemcpyAsync(a->memory, a->memory, 4, a->stream);
}

static cuda_error_t try_alloc(attempt_t *a)
{
    return cu.cuMemAlloc_v2(&a->memory, 8);
}

/* So many works in the stream that waits. */
static cuda_error_t fill(attempt_t *a, int n)
{
    cuda_error_t error = CUDA_DONE;

    while (n-- > 0 && !error) {
        error = cu.cuMemcpyAsync(a->memory, a->memory, 4, a->waits);
    }
    return error;
}

static cuda_error_t try_many(attempt_t *a)
{
    return fill(a, 512);
}

static cuda_error_t try_too_many(attempt_t *a)
{
    return fill(a, 1100);
}

static cuda_error_t try_synchronize(attempt_t *a)
{
    (void)a;
    return cu.cuCtxSynchronize();
}

static void *attempt_main(void *arg)
{
    attempt_t *a = arg;
    cuda_error_t error = cu.cuCtxSetCurrent(context);

    __atomic_store_n(&a->thread, gettid(), __ATOMIC_RELEASE);
    error = a->call(a);
    __atomic_store_n(&a->done, error ? -1 : 1, __ATOMIC_RELEASE);
    return NULL;
}

static bool is_done(const attempt_t *a, bool wait)
{
    for (int i = 0; wait && i < PATIENCE && !__atomic_load_n(&a->done, __ATOMIC_ACQUIRE); i++) {
        usleep(1000);
    }
    return __atomic_load_n(&a->done, __ATOMIC_ACQUIRE) == 1;
}

/* The call has returned, or its thread sleeps in it: a busy machine lets threads run late. */
static bool is_settled(const attempt_t *a)
{
    int thread = __atomic_load_n(&a->thread, __ATOMIC_ACQUIRE);
    char path[64], state = 'R';
    FILE *file;

    if (!thread || __atomic_load_n(&a->done, __ATOMIC_ACQUIRE)) {
        return thread != 0;
    }
    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", thread);
    file = fopen(path, "r");
    if (file) {
        (void)!fscanf(file, "%*d %*s %c", &state);
        fclose(file);
    }
    return state == 'S';
}

static void wait_until_settled(const attempt_t *a)
{
    usleep(BLOCKED_US);
    for (int i = 0; i < PATIENCE && !is_settled(a); i++) {
        usleep(1000);
    }
}

/* A stream waits. One thread makes the call, and then another copies in another stream. Which of them return while the stream
 * waits? */
static void while_waiting(cuda_error_t (*call)(attempt_t *attempt), cuda_addr_t memory, bool returns, bool copies)
{
    struct CUstream_st *waits, *other;
    attempt_t attempts[2] = {{.call = call, .memory = memory}, {.call = try_copy}};
    pthread_t threads[2];
    uint32_t *word;
    void *made;

    CHECK(cu.cuMemHostAlloc(&made, 64, FAKE_MAPPED) == CUDA_DONE);
    word = made;
    word[0] = word[1] = 0;
    CHECK(cu.cuMemAlloc_v2(&attempts[1].memory, 64) == CUDA_DONE);
    CHECK(cu.cuStreamCreate(&waits, CUDA_STREAM_NON_BLOCKING) == CUDA_DONE);
    CHECK(cu.cuStreamCreate(&other, CUDA_STREAM_NON_BLOCKING) == CUDA_DONE);
    attempts[0].stream = attempts[1].stream = other;
    attempts[0].waits = waits;
    CHECK(cu.cuStreamWriteValue32_v2(waits, (uintptr_t)(word + 1), 1, 0) == CUDA_DONE);
    CHECK(cu.cuStreamWaitValue32_v2(waits, (uintptr_t)word, 1, 0) == CUDA_DONE);
    for (int i = 0; i < PATIENCE && !__atomic_load_n(word + 1, __ATOMIC_ACQUIRE); i++) {
        usleep(1000); /* on a busy machine the stream begins late */
    }
    usleep(BLOCKED_US / 5);
    for (int i = 0; i < 2; i++) {
        pthread_create(&threads[i], NULL, attempt_main, &attempts[i]);
        wait_until_settled(&attempts[i]);
    }
    CHECK(is_done(&attempts[0], returns) == returns);
    CHECK(is_done(&attempts[1], copies) == copies);
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
    CHECK(is_done(&attempts[0], true) && is_done(&attempts[1], true));
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    CHECK(cu.cuStreamSynchronize(other) == CUDA_DONE && cu.cuStreamDestroy_v2(other) == CUDA_DONE);
    CHECK(cu.cuStreamDestroy_v2(waits) == CUDA_DONE);
    CHECK(cu.cuMemFree_v2(attempts[1].memory) == CUDA_DONE && cu.cuMemFreeHost(made) == CUDA_DONE);
}

static void waits(void)
{
    static _Alignas(4096) char plain[4096];
    cuda_addr_t memory = 0;
    void *pinned = NULL;

    CHECK(cu.cuMemAlloc_v2(&memory, 64) == CUDA_DONE && cu.cuMemHostAlloc(&pinned, 64, FAKE_MAPPED) == CUDA_DONE);
    CHECK(cu.cuMemHostRegister_v2(plain, sizeof(plain), FAKE_MAPPED) == CUDA_DONE);
    while_waiting(try_free, memory, false, false);
    while_waiting(try_free_host, (uintptr_t)pinned, false, false);
    while_waiting(try_unregister, (uintptr_t)plain, false, false);
    while_waiting(try_launch, 0, false, false);
    while_waiting(try_launch, 0, true, true);
    while_waiting(try_alloc, 0, true, true);
    CHECK(cu.cuMemAlloc_v2(&memory, 64) == CUDA_DONE);
    while_waiting(try_many, memory, true, true);
    while_waiting(try_too_many, memory, false, false);
    while_waiting(try_synchronize, 0, false, true);
    CHECK(cu.cuMemFree_v2(memory) == CUDA_DONE);
    CHECK(launched == 2);
}

/* What is behind a stream that waits, on the same connection, waits too. */
static void connections(int n)
{
    struct CUstream_st *streams[3];
    cuda_addr_t memory;
    void *word;

    CHECK(cu.cuMemHostAlloc(&word, 64, FAKE_MAPPED) == CUDA_DONE && cu.cuMemAlloc_v2(&memory, 64) == CUDA_DONE);
    *(uint32_t *)word = 0;
    for (int i = 0; i < 3; i++) {
        CHECK(cu.cuStreamCreate(&streams[i], CUDA_STREAM_NON_BLOCKING) == CUDA_DONE);
    }
    CHECK(cu.cuStreamWaitValue32_v2(streams[0], (uintptr_t)word, 1, 0) == CUDA_DONE);
    for (int i = 1; i < 3; i++) {
        CHECK(cu.cuMemcpyAsync(memory, memory, 4, streams[i]) == CUDA_DONE);
    }
    usleep(BLOCKED_US);
    for (int i = 1; i < 3; i++) {
        CHECK((cu.cuStreamQuery(streams[i]) == CUDA_NOT_READY) == (n != 0 && i % n == 0));
    }
    __atomic_store_n((uint32_t *)word, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < 3; i++) {
        CHECK(cu.cuStreamSynchronize(streams[i]) == CUDA_DONE && cu.cuStreamDestroy_v2(streams[i]) == CUDA_DONE);
    }
    CHECK(cu.cuMemFreeHost(word) == CUDA_DONE && cu.cuMemFree_v2(memory) == CUDA_DONE);
}

/* ---- two processes ---- */

static void say(const void *what, size_t bytes)
{
    if (write(peer, what, bytes) != (ssize_t)bytes) {
        exit(3);
    }
}

static void hear(void *what, size_t bytes)
{
    if (recv(peer, what, bytes, MSG_WAITALL) != (ssize_t)bytes) {
        exit(3);
    }
}

static void step(void)
{
    char token = 0;

    say(&token, 1);
    hear(&token, 1);
}

static void owner(void)
{
    cuda_ipc_handle_t handle;
    cuda_addr_t memory, imported, again;

    CHECK(cu.cuMemAlloc_v2(&memory, LARGE) == CUDA_DONE);
    strcpy(host_address(memory + LARGE - 64), "from the owner");
    CHECK(cu.cuIpcGetMemHandle(&handle, memory) == CUDA_DONE);
    CHECK(cu.cuIpcOpenMemHandle_v2(&imported, handle, CUDA_IPC_LAZY_PEER_ACCESS) == CUDA_INVALID_CONTEXT);
    say(&handle, sizeof(handle));
    step(); /* the peer has written */
    CHECK(!strcmp(host_address(memory + LARGE - 64), "from the peer"));
    CHECK(cu.cuMemFree_v2(memory) == CUDA_DONE);
    step(); /* the handle is stale */
    step();
    CHECK(cu.cuMemAlloc_v2(&again, LARGE) == CUDA_DONE && again == memory);
    CHECK(cu.cuIpcGetMemHandle(&handle, again) == CUDA_DONE);
    say(&handle, sizeof(handle));
    step();
    CHECK(cu.cuMemFree_v2(again) == CUDA_DONE);
}

static cuda_error_t try_close(attempt_t *a)
{
    return cu.cuIpcCloseMemHandle(a->memory);
}

static void importer(void)
{
    cuda_enum_t capable = CUDA_ATTRIBUTE_IPC_CAPABLE;
    cuda_ipc_handle_t handle, next;
    cuda_addr_t memory, other;
    char text[64] = "from the peer";
    unsigned is = 1;
    void *data = &is;

    hear(&handle, sizeof(handle));
    CHECK(cu.cuIpcOpenMemHandle_v2(&memory, handle, CUDA_IPC_LAZY_PEER_ACCESS) == CUDA_DONE);
    CHECK(cu.cuPointerGetAttributes(1, &capable, &data, memory) == CUDA_DONE && !(is & 0xFF));
    CHECK(!strcmp(host_address(memory + LARGE - 64), "from the owner"));
    CHECK(cu.cuMemcpy(memory + LARGE - 64, (uintptr_t)text, sizeof(text)) == CUDA_DONE);
    step();
    step(); /* the owner has freed it, but it is open here */
    CHECK(cu.cuMemcpy((uintptr_t)text, memory + LARGE - 64, sizeof(text)) == CUDA_DONE);
    step();
    hear(&next, sizeof(next));
    CHECK(cu.cuIpcOpenMemHandle_v2(&other, next, CUDA_IPC_LAZY_PEER_ACCESS) == FAKE_ALREADY_MAPPED);
    while_waiting(try_close, memory, false, false);
    CHECK(cu.cuIpcOpenMemHandle_v2(&other, handle, CUDA_IPC_LAZY_PEER_ACCESS) == FAKE_INVALID);
    CHECK(cu.cuIpcOpenMemHandle_v2(&other, next, CUDA_IPC_LAZY_PEER_ACCESS) == CUDA_DONE);
    CHECK(cu.cuIpcCloseMemHandle(other) == CUDA_DONE);
    step();
}

int main(int argc, char **argv)
{
    const char *wanted = getenv("DMA_FAKE_CUDA_CONNECTIONS");
    int ends[2], status = 0;
    pid_t child;

    if (argc != 2 || socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) {
        return 2;
    }
    child = fork();
    peer = ends[child != 0];
    close(ends[child == 0]);
    open_library(argv[1]);
    contexts();
    if (wanted) {
        connections(atoi(wanted));
    } else if (child) {
        unreachable();
        copies();
        words();
        connections(0);
        waits();
        owner();
    } else {
        importer();
    }
    if (!child) {
        _exit(failed ? 1 : 0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    printf("fake_check: %d checks, %d failed\n", checks, failed);
    return failed ? 1 : 0;
}
