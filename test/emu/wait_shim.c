/*
 * Preloaded on the emulated node: a wait for a signal first waits until the engines have done their work.
 *
 * ROCr spins for up to 300 us before it sleeps. On the emulated node that takes the core from the thread of the engines: two
 * thirds of a test's time were spent in this way. ROCr's own function is called afterwards, with the same result.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

#define MOST_NS 2000000 /* the longest time; ROCr waits for the rest */

/* The type of hsa.h. */
typedef struct {
    uint64_t handle;
} signal_t;
typedef int64_t wait_fn(signal_t signal, int condition, int64_t value, uint64_t timeout, int state);
typedef void settle_fn(long most_ns);

/* At the kernel's door it is in this library, at the thunk's door in the library that replaces the thunk. */
void emu_settle(long most_ns) __attribute__((weak));

static void *in_library(const char *library, const char *name)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_NOLOAD), *found = NULL;
    if (handle) {
        found = dlsym(handle, name);
        dlclose(handle);
    }
    return found;
}

/* dlsym finds ROCr's function, because the caller of this one has loaded ROCr. */
__attribute__((visibility("default"))) int64_t hsa_signal_wait_scacquire(signal_t signal, int condition, int64_t value,
                                                                         uint64_t timeout, int state)
{
    static _Atomic(wait_fn *) wait;
    static _Atomic(settle_fn *) settle;
    if (!wait) {
        settle = emu_settle ? emu_settle : (settle_fn *)in_library("libhsakmt.so.1", "emu_settle");
        wait = (wait_fn *)in_library("libhsa-runtime64.so.1", "hsa_signal_wait_scacquire");
    }
    if (settle)
        settle(MOST_NS);
    return wait(signal, condition, value, timeout, state);
}
