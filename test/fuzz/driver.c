/*
 * Replaces libFuzzer if there is no clang: fuzz_NAME SEED COUNT FILE...
 *
 * Runs the files as they are, then COUNT inputs that are made of them by a few random changes each. The last line is "N
 * inputs". If an input ends the program, a line says which one: with the same arguments and FUZZ_ONLY=that number, it runs
 * alone.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz.h"

#define MOST_BYTES (1 << 20)

typedef struct seed {
    uint8_t *data;
    size_t bytes;
} seed_t;

static uint64_t state;
static volatile unsigned long current;

static uint64_t draw(uint64_t n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % n;
}

static void say_which(void)
{
    char line[80];
    int n = snprintf(line, sizeof(line), "\nfuzz: it was input %lu\n", current);

    if (write(STDERR_FILENO, line, (size_t)n) < 0) {
        _exit(1);
    }
}

static void on_signal(int number)
{
    say_which();
    signal(number, SIG_DFL);
    raise(number);
}

/* Of the sanitizers, which end a program without a signal. */
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static seed_t load(const char *path)
{
    seed_t seed = {.data = malloc(MOST_BYTES)};
    FILE *file = fopen(path, "r");

    if (!file || !seed.data) {
        perror(path);
        exit(2);
    }
    seed.bytes = fread(seed.data, 1, MOST_BYTES, file);
    fclose(file);
    return seed;
}

/* One change: numbers at the edge of a type, text that is a number, bytes that are removed, doubled or from another
 * input. */
static size_t change(uint8_t *data, size_t bytes, const seed_t *other)
{
    static const uint64_t edges[] = {0,     1,     127,       255,        256,       4095,
                                     65535, 65536, INT32_MAX, UINT32_MAX, INT64_MAX, UINT64_MAX};
    static const char *const words[] = {"0",  "-1", "4294967296", "18446744073709551615", "99999999999999999999",
                                        "\n", " ",  "%s"};
    size_t at = draw(bytes + 1), n = 1 + draw(draw(8) ? 8 : 256), width;
    uint64_t value = edges[draw(sizeof(edges) / sizeof(edges[0]))];
    const char *word = words[draw(sizeof(words) / sizeof(words[0]))];

    switch (draw(7)) {
    case 0:
        if (at < bytes) {
            data[at] ^= (uint8_t)(1 << draw(8));
        }
        return bytes;
    case 1:
        if (at < bytes) {
            data[at] = (uint8_t)draw(256);
        }
        return bytes;
    case 2:
        width = (size_t)1 << draw(4);
        at &= ~(width - 1);
        if (at + width <= bytes) {
            memcpy(data + at, &value, width);
        }
        return bytes;
    case 3: /* gone */
        n = n < bytes - at ? n : bytes - at;
        memmove(data + at, data + at + n, bytes - at - n);
        return bytes - n;
    case 4: /* twice */
        n = n < bytes - at ? n : bytes - at;
        if (bytes + n > MOST_BYTES) {
            return bytes;
        }
        memmove(data + at + n, data + at, bytes - at);
        return bytes + n;
    case 5:
        n = strlen(word);
        if (bytes + n > MOST_BYTES) {
            return bytes;
        }
        memmove(data + at + n, data + at, bytes - at);
        memcpy(data + at, word, n);
        return bytes + n;
    default:
        width = other->bytes ? draw(other->bytes) : 0;
        n = n < other->bytes - width ? n : other->bytes - width;
        n = n < bytes - at ? n : bytes - at;
        memcpy(data + at, other->data + width, n);
        return bytes;
    }
}

/* In memory of its exact size, so that a sanitizer notices the byte behind it. */
static void run(const uint8_t *data, size_t bytes)
{
    uint8_t *copy = malloc(bytes ? bytes : 1);

    if (bytes) {
        memcpy(copy, data, bytes);
    }
    LLVMFuzzerTestOneInput(copy, bytes);
    free(copy);
}

int main(int argc, char **argv)
{
    static uint8_t data[MOST_BYTES];
    unsigned long nseeds = argc > 3 ? (unsigned long)argc - 3 : 0;
    unsigned long count = argc > 2 ? strtoul(argv[2], NULL, 0) : 0;
    const char *only = getenv("FUZZ_ONLY");
    seed_t *seeds = calloc(nseeds + 1, sizeof(*seeds));

    if (!nseeds || !seeds) {
        fprintf(stderr, "usage: %s SEED COUNT FILE...\n", argv[0]);
        return 2;
    }
    for (int i = 0; i < 5; i++) {
        signal((const int[]){SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}[i], on_signal);
    }
    signal(SIGALRM, on_signal);
    if (__sanitizer_set_death_callback) {
        __sanitizer_set_death_callback(say_which);
    }
    for (unsigned long i = 0; i < nseeds; i++) {
        seeds[i] = load(argv[3 + i]);
    }
    for (current = 0; current < nseeds + count; current++) {
        const seed_t *seed = &seeds[current % nseeds];
        size_t bytes = seed->bytes;

        if (only && strtoul(only, NULL, 0) != current) {
            continue;
        }
        state = (strtoull(argv[1], NULL, 0) * 1000003 + current + 1) * UINT64_C(0x9e3779b97f4a7c15) | 1;
        memcpy(data, seed->data, bytes);
        for (uint64_t n = current < nseeds ? 0 : 1 + draw(8); n; n--) {
            bytes = change(data, bytes, &seeds[draw(nseeds)]);
        }
        alarm(10); /* an input that takes longer hangs */
        run(data, bytes);
    }
    for (unsigned long i = 0; i < nseeds; i++) {
        free(seeds[i].data);
    }
    free(seeds);
    printf("%lu inputs\n", nseeds + count);
    return 0;
}
