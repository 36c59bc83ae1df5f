/*
 * Preloaded where the node is emulated: whoever waits for a signal lets the engines do their work first.
 *
 * ROCr spins for up to 300 us before it sleeps. Beside hardware that costs little. Here it takes the core from the thread that
 * plays the hardware, and two thirds of a test's time were spent so. ROCr's own function follows and sees what it would have
 * seen, sooner or later.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

#define MOST_NS 2000000 /* engines that have a lot to do: ROCr waits for the rest */

/* As in hsa.h. */
typedef struct {
    uint64_t handle;
} signal_t;
typedef int64_t wait_fn(signal_t signal, int condition, int64_t value, uint64_t timeout, int state);
typedef void settle_fn(long most_ns);

/* In this library, where it has the node; else in the one that stands in for the thunk. */
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

/* Only of libraries that the process has loaded: this is called by one of their users. */
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
