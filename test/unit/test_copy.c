/* dma_copy copies every byte and no other, wherever source and target lie in their pages. */
#include <stdlib.h>
#include <string.h>

#include "dma/copy.h"
#include "libunit.h"

#define PAGE   4096
#define MOST   (3 * PAGE)
#define MARGIN 256
#define AREA   (MARGIN + PAGE + MOST + MARGIN)
#define GAP    0xee

static uint8_t *from, *to, *expected;

static void (*const copies[])(void *, const void *, size_t) = {dma_copy, dma_copy_backwards};

static void copy_and_check(size_t source, size_t target, size_t bytes)
{
    memset(expected, GAP, AREA);
    for (size_t i = 0; i < bytes; i++) {
        expected[target + i] = from[source + i];
    }
    for (int i = 0; i < 2; i++) {
        memset(to, GAP, AREA);
        copies[i](to + target, from + source, bytes);
        ck_assert_msg(!memcmp(to, expected, AREA), "%zu bytes from %zu to %zu", bytes, source, target);
    }
}

START_TEST(any_distance)
{
    static const size_t sizes[] = {
        0, 1, 63, DMA_COPY_LONG - 1, DMA_COPY_LONG, DMA_COPY_LONG + 1, DMA_COPY_LONG + 65, PAGE, 2 * PAGE - 17, MOST};

    from = aligned_alloc(PAGE, 2 * PAGE + AREA / PAGE * PAGE);
    to = aligned_alloc(PAGE, 2 * PAGE + AREA / PAGE * PAGE);
    expected = malloc(AREA);
    srandom((unsigned)unit_seed());
    for (size_t i = 0; i < AREA; i++) {
        from[i] = (uint8_t)random();
    }
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        for (size_t above = 0; above <= DMA_COPY_ALIAS + 8; above++) {
            size_t source = MARGIN + (size_t)random() % 128;

            copy_and_check(source, source + above, sizes[s]);
            copy_and_check(source, source - above, sizes[s]);
        }
    }
    for (int i = 0; i < 500; i++) {
        copy_and_check(MARGIN + (size_t)random() % PAGE, MARGIN + (size_t)random() % PAGE,
                       (size_t)random() % (MOST + 1));
    }
    free(from);
    free(to);
    free(expected);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("copy");

    unit_test(suite, any_distance, 20);
    return unit_main(suite);
}
