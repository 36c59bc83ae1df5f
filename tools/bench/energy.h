/* Joules of this rank's GPU since some moment: energy_gpu.c. */
#ifndef TOOLS_BENCH_ENERGY_H
#define TOOLS_BENCH_ENERGY_H

#include <stdbool.h>

/* NULL, or why there are none. */
const char *energy_gpu_open(void);
/* False: the counter cannot be read any more. */
bool energy_gpu_read(double *joules);

#endif
