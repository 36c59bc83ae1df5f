/*
 * The factors of the matrix products that run beside collectives: SIDE x SIDE random bf16 numbers between -1 and 1, because a
 * product of zeros costs less energy. A header alone, because nvcc builds gemm_cublas.c from one source.
 */
#ifndef TEST_GPU_MATRIX_H
#define TEST_GPU_MATRIX_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 8192 };
#define SEED_A UINT64_C(88172645463325252)
#define SEED_B UINT64_C(1181783497276652981)

/* In memory of the host, to be freed; NULL: there is none. */
static uint16_t *random_matrix(uint64_t seed)
{
    size_t n = (size_t)SIDE * SIDE;
    uint16_t *elements = malloc(n * sizeof(*elements));

    for (size_t i = 0; elements && i < n; i++) {
        float value;
        uint32_t bits;

        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        value = (float)(int32_t)seed / 2147483648.0f;
        memcpy(&bits, &value, sizeof(bits));
        elements[i] = (uint16_t)(bits >> 16);
    }
    return elements;
}

#endif
