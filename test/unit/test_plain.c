/* Memory that is never device memory: the heap and the stack of the main thread. */
#include <pthread.h>
#include <sys/mman.h>

#include "libunit.h"
#include "node/plain.h"

#define MIB (1u << 20)

static int sbrks;

/* Takes the C library's place, as UCX's does, in which each call is a system call. */
void *sbrk(intptr_t bytes)
{
    char *end;

    sbrks++;
    if (!__curbrk) { /* the allocator of a sanitizer has not asked for the heap */
        ck_assert_int_eq(brk(NULL), 0);
    }
    end = __curbrk;
    return bytes == 0 || brk(end + bytes) == 0 ? end : (void *)-1;
}

/* In a stack frame of its own, as in a call of MPI: variables of the caller are above it. */
static __attribute__((noinline)) bool is_plain(const dma_plain_t *plain, const void *address)
{
    return dma_plain_holds(plain, address);
}

static void *stack_of_a_thread_is_not_plain(void *arg)
{
    char local = 0;

    ck_assert(!is_plain(arg, &local));
    return NULL;
}

START_TEST(plain_memory)
{
    static char fixed;
    dma_plain_t plain = dma_plain_read(), unknown = {0};
    char local, *mapped = mmap(NULL, MIB, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *heap;
    uintptr_t below = (uintptr_t)&local - DMA_PLAIN_STACK_BYTES; /* not in use */
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, stack_of_a_thread_is_not_plain, &plain), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    heap = sbrk(100);
    ck_assert(heap != (void *)-1 && mapped != MAP_FAILED);
    ck_assert(is_plain(&plain, heap));
    ck_assert(is_plain(&plain, heap + 99));
    ck_assert(is_plain(&plain, &local));
    ck_assert(is_plain(&plain, (void *)plain.heap_begin));
    ck_assert(!is_plain(&plain, (char *)plain.heap_begin - 1));
    ck_assert(!is_plain(&plain, (char *)plain.stack_end + 1));
    ck_assert(!is_plain(&plain, heap + 100)); /* the first byte behind the heap */
    ck_assert(!is_plain(&plain, mapped));
    ck_assert(!is_plain(&plain, &fixed));
    ck_assert(!is_plain(&plain, NULL));
    ck_assert(!is_plain(&plain, (void *)below));
    ck_assert(!is_plain(&unknown, heap));
    ck_assert(!is_plain(&unknown, &local));
    ck_assert_int_eq(sbrk(-100) == (void *)-1, 0);
    ck_assert(!is_plain(&plain, heap)); /* returned */
    ck_assert_int_eq(sbrks, 2);         /* those above */
    munmap(mapped, MIB);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plain");

    unit_test(suite, plain_memory, 10);
    return unit_main(suite);
}
