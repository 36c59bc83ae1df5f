/* All calls of libcuda that no test looks at: they succeed. fake_cuda.c has the others. */
#include "gpu/cuda/api.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"
#define REST(name, symbol, required, ...)                                                                              \
    cuda_error_t symbol(__VA_ARGS__);                                                                                  \
    __attribute__((weak)) cuda_error_t symbol(__VA_ARGS__)                                                             \
    {                                                                                                                  \
        return CUDA_DONE;                                                                                              \
    }
CUDA_CALLS(REST)
CUDA_OLD_CALLS(REST)
