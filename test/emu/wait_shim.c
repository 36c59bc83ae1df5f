/*
 * Preloaded on the emulated node: a wait for a signal first waits until the engines have done their work, and then sleeps.
 *
 * ROCr spins for up to 300 us before it sleeps. On the emulated node that takes the core from the thread of the engines: two
 * thirds of a test's time were spent in this way. The engines can be without work while the signal is not there yet: they are
 * late on purpose, or wait for another rank. So there are short sleeps before ROCr's own function is called, with the same
 * result. HIP asks that function to spin until the signal is there. Here it always sleeps.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define MOST_NS  2000000 /* the longest time; ROCr waits for the rest */
#define SLEEPS   8       /* at most */
#define FIRST_NS 20000   /* the first sleep; the next ones are twice as long each */
#define BLOCKED  0       /* HSA_WAIT_STATE_BLOCKED */

/* The type of hsa.h. */
typedef struct {
    uint64_t handle;
} signal_t;
typedef int64_t load_fn(signal_t signal);
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

/* In the order of hsa.h. */
static bool holds(int condition, int64_t found, int64_t value)
{
    switch (condition) {
    case 0:
        return found == value;
    case 1:
        return found != value;
    case 2:
        return found < value;
    default:
        return found >= value;
    }
}

/* dlsym finds ROCr's function, because the caller of this one has loaded ROCr. */
__attribute__((visibility("default"))) int64_t hsa_signal_wait_scacquire(signal_t signal, int condition, int64_t value,
                                                                         uint64_t timeout, int state)
{
    static _Atomic(wait_fn *) wait;
    static _Atomic(load_fn *) load;
    static _Atomic(settle_fn *) settle;
    if (!wait) {
        settle = emu_settle ? emu_settle : (settle_fn *)in_library("libhsakmt.so.1", "emu_settle");
        load = (load_fn *)in_library("libhsa-runtime64.so.1", "hsa_signal_load_relaxed");
        wait = (wait_fn *)in_library("libhsa-runtime64.so.1", "hsa_signal_wait_scacquire");
    }
    if (settle && load) {
        settle(MOST_NS);
        for (int i = 0; i < SLEEPS && !holds(condition, load(signal), value); i++) {
            nanosleep(&(struct timespec){.tv_nsec = FIRST_NS << i}, NULL);
            settle(MOST_NS);
        }
    }
    (void)state;
    return wait(signal, condition, value, timeout, BLOCKED);
}
