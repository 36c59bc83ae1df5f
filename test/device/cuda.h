/* The calls of hip.h by CUDA's driver: see cuda.c. */
#ifndef TEST_DEVICE_CUDA_H
#define TEST_DEVICE_CUDA_H

#include "hip.h"

/* Loads CUDA and counts its devices. False, with a line on stderr, if there are none. */
bool cuda_fill(hip_table_t *table, int *devices);
/* Words that streams of this process have written, as `fences`. False, if the driver is not the fake one. */
bool cuda_stats(hip_stats_t *stats);

#endif
