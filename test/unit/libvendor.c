/* The vendors' libraries for unit tests: see libvendor.h. */
#include "libvendor.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "libunit.h"

_Thread_local bool vendor_is_loading;

void *vendor_load(const char *name, fake_driver_t **driver)
{
    char path[4096];
    void *library;

    snprintf(path, sizeof(path), "%s/%s", DMA_TEST_LIBRARIES, name);
    vendor_is_loading = true;
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    vendor_is_loading = false;
    ck_assert_msg(library != NULL, "%s", dlerror());
    if (driver) {
        *driver = dlsym(library, "fake_driver");
        ck_assert_ptr_nonnull(*driver);
    }
    return library;
}

void vendor_load_copy(const char *name, const char *copy)
{
    char folder[] = "/tmp/dma-XXXXXX", path[64], command[4400];

    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/%s", folder, copy);
    snprintf(command, sizeof(command), "cp '%s/%s' '%s'", DMA_TEST_LIBRARIES, name, path);
    ck_assert_int_eq(system(command), 0);
    vendor_is_loading = true;
    ck_assert_ptr_nonnull(dlopen(path, RTLD_NOW | RTLD_LOCAL));
    vendor_is_loading = false;
    ck_assert_int_eq(unlink(path) | rmdir(folder), 0);
}

const dma_gpu_runtime_t *vendor_cuda(fake_driver_t **driver)
{
    const dma_gpu_runtime_t *rt;

    vendor_load("libcuda.so.1", driver);
    rt = dma_gpu_runtime_loaded();
    ck_assert_ptr_nonnull(rt);
    ck_assert_str_eq(rt->name, "cuda");
    return rt;
}

const dma_gpu_runtime_t *vendor_hip(fake_driver_t **driver, int version)
{
    const dma_gpu_runtime_t *rt;

    vendor_load("libamdhip64.so.6", driver);
    (*driver)->version = version;
    vendor_load("libhsa-runtime64.so.1", NULL);
    rt = dma_gpu_runtime_loaded();
    ck_assert_ptr_nonnull(rt);
    ck_assert_str_eq(rt->name, "hip");
    ck_assert_uint_eq(rt->version, (uint32_t)version);
    return rt;
}

void *vendor_call(const char *library, const char *name)
{
    void *symbol = dlsym(vendor_load(library, NULL), name);

    ck_assert_msg(symbol != NULL, "%s", name);
    return symbol;
}
