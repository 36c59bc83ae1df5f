/* The key of a record: what a GPU is, and the software that drives it. See record.h. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "engine/sdma/record.h"
#include "engine/sdma/topology_text.h"
#include "gpu/internal.h"

#define DRIVER_VERSION "/sys/module/amdgpu/version" /* only of a driver that does not belong to the kernel */

/* Attributes of hsa_system_get_info. */
#define ROCR_MAJOR 0u     /* a uint16_t */
#define ROCR_MINOR 1u     /* the same */
#define ROCR_BUILD 0x200u /* a const char * */

/* Copies a word: what is not printable becomes "_", and nothing becomes "-". */
static void put_word(char *word, size_t bytes, const char *text)
{
    size_t n = strcspn(text, "\n");

    n = n < bytes - 1 ? n : bytes - 1;
    for (size_t i = 0; i < n; i++) {
        word[i] = '_';
        if (text[i] > ' ' && text[i] <= '~') {
            word[i] = text[i];
        }
    }
    word[n] = '\0';
    if (n == 0) {
        snprintf(word, bytes, "-");
    }
}

static void read_rocr(char *word, size_t bytes)
{
    static const char *const names[] = {"libhsa-runtime64.so.1", "libhsa-runtime64.so", NULL};
    static const dma_gpu_symbol_t symbol = {"hsa_system_get_info", true};
    uint32_t (*system_info)(uint32_t attribute, void *value);
    void *library = dma_gpu_find_library(names);
    uint16_t major, minor;
    const char *build = NULL;
    char text[128];

    put_word(word, bytes, "");
    if (library && dma_gpu_find_symbols(library, &symbol, 1, &system_info) && !system_info(ROCR_MAJOR, &major) &&
        !system_info(ROCR_MINOR, &minor)) {
        snprintf(text, sizeof(text), "%u.%u-%s", major, minor, !system_info(ROCR_BUILD, &build) && build ? build : "");
        put_word(word, bytes, text);
    }
    if (library) {
        dlclose(library);
    }
}

void dma_record_key_read(const dma_topo_gpu_t *gpu, const char *provider, dma_record_key_t *key)
{
    struct utsname kernel = {.release = ""};
    char driver[128];

    *key = (dma_record_key_t){
        .version = gpu->version, .device_id = gpu->device_id, .xccs = gpu->xccs, .firmware = gpu->firmware};
    (void)uname(&kernel);
    put_word(key->kernel, sizeof(key->kernel), kernel.release);
    if (!dma_text_read(AT_FDCWD, DRIVER_VERSION, driver, sizeof(driver))) {
        driver[0] = '\0';
    }
    put_word(key->driver, sizeof(key->driver), driver);
    read_rocr(key->rocr, sizeof(key->rocr));
    put_word(key->provider, sizeof(key->provider), provider);
}
