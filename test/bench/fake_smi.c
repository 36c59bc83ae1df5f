/*
 * Stands in for AMD's libraries that tell the energy of a GPU, by the name that a link gives it: AMD SMI (libamd_smi.so) or ROCm
 * SMI (librocm_smi64.so). There are two GPUs, at the addresses of the first two of an emulated MI300X node. The first one takes 100 W and
 * the second one 50 W; from the read FAKE_SMI_BUSY of a process on, three times that. One count is 15.259 microjoules, as on
 * the real ones.
 */
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#define EXPORT   __attribute__((visibility("default")))
#define COUNT_UJ 15.259f

enum { GPUS = 2, REFUSED = 2 };
static const uint64_t buses[GPUS] = {0x0c, 0x22};

static int energy_of(uint64_t gpu, uint64_t *count, float *microjoules, uint64_t *ns)
{
    static double last, joules;
    static int reads;
    const char *busy = getenv("FAKE_SMI_BUSY");
    struct timespec t;
    double now;

    if (gpu >= GPUS) {
        return REFUSED;
    }
    clock_gettime(CLOCK_MONOTONIC, &t);
    now = (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
    joules += last > 0 ? (now - last) * (gpu ? 50 : 100) * (busy && reads >= atoi(busy) ? 3 : 1) : 1e6;
    last = now;
    reads++;
    *count = (uint64_t)(joules / (double)COUNT_UJ * 1e6);
    *microjoules = COUNT_UJ;
    *ns = (uint64_t)(now * 1e9);
    return 0;
}

/* ---- ROCm SMI ---- */

EXPORT int rsmi_init(uint64_t flags);
EXPORT int rsmi_num_monitor_devices(uint32_t *count);
EXPORT int rsmi_dev_pci_id_get(uint32_t number, uint64_t *address);
EXPORT int rsmi_dev_energy_count_get(uint32_t number, uint64_t *count, float *microjoules, uint64_t *ns);

int rsmi_init(uint64_t flags)
{
    return flags ? REFUSED : 0;
}

int rsmi_num_monitor_devices(uint32_t *count)
{
    *count = GPUS;
    return 0;
}

int rsmi_dev_pci_id_get(uint32_t number, uint64_t *address)
{
    *address = buses[number] << 8;
    return 0;
}

int rsmi_dev_energy_count_get(uint32_t number, uint64_t *count, float *microjoules, uint64_t *ns)
{
    return energy_of(number, count, microjoules, ns);
}

/* ---- AMD SMI ---- */

EXPORT int amdsmi_init(uint64_t what);
EXPORT int amdsmi_get_processor_handle_from_bdf(uint64_t address, void **handle);
EXPORT int amdsmi_get_energy_count(void *handle, uint64_t *count, float *microjoules, uint64_t *ns);

static char handles[GPUS];

int amdsmi_init(uint64_t what)
{
    return what == 2 ? 0 : REFUSED;
}

int amdsmi_get_processor_handle_from_bdf(uint64_t address, void **handle)
{
    for (int i = 0; i < GPUS; i++) {
        if (address == buses[i] << 8) {
            *handle = &handles[i];
            return 0;
        }
    }
    return REFUSED;
}

int amdsmi_get_energy_count(void *handle, uint64_t *count, float *microjoules, uint64_t *ns)
{
    return energy_of((uint64_t)((char *)handle - handles), count, microjoules, ns);
}
