/*
 * Fuzzing: one program for each reader of data from elsewhere. fuzz_NAME.c has the function that libFuzzer, or driver.c,
 * calls.
 *
 * A function gets any bytes. It must not crash, hang, or violate a sanitizer's rule. Its answers are checked where all
 * answers must agree with others.
 */
#ifndef DMA_TEST_FUZZ_H
#define DMA_TEST_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Ends the program, as a sanitizer does. */
#define FUZZ_MUST(what)                                                                                                \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            __builtin_trap();                                                                                          \
        }                                                                                                              \
    } while (0)

/* A directory of this process in memory. The first call makes it; it is removed when the program ends. */
const char *fuzz_dir(void);
/* Writes a file below that directory, with the folders that lead to it. False: the name is not possible there. */
int fuzz_write(const char *name, const void *data, size_t bytes);
/* Removes everything below the directory. */
void fuzz_clear(void);

#endif
