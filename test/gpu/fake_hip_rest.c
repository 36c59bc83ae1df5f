/* All calls of HIP that no test looks at: they succeed, and are counted. fake_hip.c has the others. */
#include "fake_driver.h"
#include "gpu/hip/api.h"

extern fake_driver_t fake_driver;

#pragma GCC diagnostic ignored "-Wunused-parameter"
#define REST(name, required, ...)                                                                                      \
    hip_error_t name(__VA_ARGS__);                                                                                     \
    __attribute__((weak)) hip_error_t name(__VA_ARGS__)                                                                \
    {                                                                                                                  \
        fake_driver.calls++;                                                                                           \
        return HIP_DONE;                                                                                               \
    }
HIP_CALLS(REST)
