/*
 * Counters of the energy of this rank's GPU: see energy.h. The vendors' libraries are opened at run time, in this order; the
 * first one that knows the GPU is used.
 *
 *     NVML       nvmlDeviceGetTotalEnergyConsumption: millijoules
 *     AMD SMI    amdsmi_get_energy_count: a count, and how many microjoules one of it is
 *     ROCm SMI   rsmi_dev_energy_count_get: the same; AMD SMI takes its place in ROCm 6 and later
 *
 * All find the GPU by its address on the bus. Partitions of a GPU have one counter. Declared here is what the libraries'
 * interfaces have had since these functions are there.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tools/bench/device.h"
#include "tools/bench/energy.h"

enum { AMD_SMI_GPUS = 2 }; /* what amdsmi_init is to find */

static struct {
    bool (*read)(double *joules);
    void *device;    /* of NVML and of AMD SMI */
    uint32_t number; /* of ROCm SMI */
    int (*nvml_energy)(void *, unsigned long long *);
    int (*amd_energy)(void *, uint64_t *, float *, uint64_t *);
    int (*rocm_energy)(uint32_t, uint64_t *, float *, uint64_t *);
} gpu;

static void *open_first(const char *const *names)
{
    void *library = NULL;

    for (; *names && !library; names++) {
        library = dlopen(*names, RTLD_NOW);
    }
    return library;
}

/* Fills a pointer to a function; false: the library has none of this name. */
static bool find(void *library, const char *name, void *function)
{
    return (*(void **)function = dlsym(library, name)) != NULL;
}

/* ---- NVML ---- */

static bool read_nvml(double *joules)
{
    unsigned long long mj = 0;
    bool right = !gpu.nvml_energy(gpu.device, &mj);

    *joules = (double)mj * 1e-3;
    return right;
}

static bool open_nvml(device_pci_t pci)
{
    static const char *const names[] = {"libnvidia-ml.so.1", NULL};
    int (*init)(void), (*handle)(const char *, void **);
    void *nvml = open_first(names);
    char text[32];

    gpu.read = read_nvml;
    snprintf(text, sizeof(text), "%08x:%02x:%02x.0", pci.domain, pci.bus, pci.device);
    return nvml && find(nvml, "nvmlInit_v2", &init) && find(nvml, "nvmlDeviceGetHandleByPciBusId_v2", &handle) &&
           find(nvml, "nvmlDeviceGetTotalEnergyConsumption", &gpu.nvml_energy) && !init() && !handle(text, &gpu.device);
}

/* ---- AMD ---- */

static bool counted(int status, uint64_t count, float microjoules, double *joules)
{
    *joules = (double)count * (double)microjoules * 1e-6;
    return !status && microjoules > 0;
}

static bool read_amd(double *joules)
{
    uint64_t count = 0, ns;
    float microjoules = 0;
    int status = gpu.amd_energy(gpu.device, &count, &microjoules, &ns);

    return counted(status, count, microjoules, joules);
}

/* amdsmi_bdf_t is a union of 64 bits: function 3, device 5, bus 8, domain 48. It is passed like a number. */
static bool open_amd(device_pci_t pci)
{
    static const char *const names[] = {"libamd_smi.so", "libamd_smi.so.26", "libamd_smi.so.25", "libamd_smi.so.24",
                                        NULL};
    uint64_t address = (uint64_t)pci.domain << 16 | (uint64_t)pci.bus << 8 | (uint64_t)pci.device << 3;
    int (*init)(uint64_t), (*handle)(uint64_t, void **);
    void *smi = open_first(names);

    gpu.read = read_amd;
    return smi && find(smi, "amdsmi_init", &init) && find(smi, "amdsmi_get_processor_handle_from_bdf", &handle) &&
           find(smi, "amdsmi_get_energy_count", &gpu.amd_energy) && !init(AMD_SMI_GPUS) &&
           !handle(address, &gpu.device);
}

static bool read_rocm(double *joules)
{
    uint64_t count = 0, ns;
    float microjoules = 0;
    int status = gpu.rocm_energy(gpu.number, &count, &microjoules, &ns);

    return counted(status, count, microjoules, joules);
}

/* An address has the domain in its upper half; the number of a partition in bits 28 to 31 or in those of the function. */
static bool open_rocm(device_pci_t pci)
{
    static const char *const names[] = {"librocm_smi64.so",   "librocm_smi64.so.7", "librocm_smi64.so.6",
                                        "librocm_smi64.so.5", "librocm_smi64.so.1", NULL};
    uint64_t wanted = (uint64_t)pci.domain << 32 | (uint64_t)pci.bus << 8 | (uint64_t)pci.device << 3, address;
    int (*init)(uint64_t), (*count)(uint32_t *), (*address_of)(uint32_t, uint64_t *);
    void *smi = open_first(names);
    uint32_t n = 0;

    gpu.read = read_rocm;
    if (!smi || !find(smi, "rsmi_init", &init) || !find(smi, "rsmi_num_monitor_devices", &count) ||
        !find(smi, "rsmi_dev_pci_id_get", &address_of) || !find(smi, "rsmi_dev_energy_count_get", &gpu.rocm_energy) ||
        init(0) || count(&n)) {
        return false;
    }
    for (gpu.number = 0; gpu.number < n; gpu.number++) {
        if (!address_of(gpu.number, &address) && (address & ~UINT64_C(0xf0000007)) == wanted) {
            return true;
        }
    }
    return false;
}

const char *energy_gpu_open(void)
{
    bool (*const ways[])(device_pci_t) = {open_nvml, open_amd, open_rocm};
    device_pci_t pci = device_pci();
    double joules;

    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        if (ways[i](pci) && gpu.read(&joules)) {
            return NULL;
        }
    }
    return "no library says what energy the GPU has used: neither NVML (libnvidia-ml.so.1) nor AMD SMI (libamd_smi.so) "
           "nor "
           "ROCm SMI (librocm_smi64.so)";
}

bool energy_gpu_read(double *joules)
{
    return gpu.read(joules);
}
