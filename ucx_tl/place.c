/*
 * Where this process is on the IP network.
 *
 * UCX takes every IPv4 address of a peer for reachable over every interface of its own. If two hosts have the same address, a
 * connection to it ends on the host where it begins, at a port of another process or of none. So such addresses are excluded.
 */
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

/* FNV-1a. */
static uint64_t add_to_hash(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *at = data;

    for (size_t i = 0; i < bytes; i++) {
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

/* Containers of one host have the same boot id and different network namespaces; with the host's own network they have the same
 * namespace, whatever their host names are. */
uint64_t dma_ucx_place_space(void)
{
    char boot[64] = "";
    struct stat namespace = {0};
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    if (!file || !fgets(boot, sizeof(boot), file)) {
        gethostname(boot, sizeof(boot) - 1);
    }
    if (file) {
        fclose(file);
    }
    stat("/proc/self/ns/net", &namespace);
    hash = add_to_hash(hash, boot, sizeof(boot));
    return add_to_hash(hash, &namespace.st_ino, sizeof(namespace.st_ino));
}

static bool is_one_of(uint32_t address, const uint32_t *addresses, uint32_t n)
{
    uint32_t i = 0;

    while (i < n && addresses[i] != address) {
        i++;
    }
    return i < n;
}

bool dma_ucx_interface_has(const char *interface, const uint32_t *addresses, uint32_t n)
{
    struct ifaddrs *all;
    bool has = false;

    if (getifaddrs(&all)) {
        return false;
    }
    for (const struct ifaddrs *a = all; a; a = a->ifa_next) {
        has = has || (a->ifa_addr && a->ifa_addr->sa_family == AF_INET && !strcmp(a->ifa_name, interface) &&
                      is_one_of(((const struct sockaddr_in *)a->ifa_addr)->sin_addr.s_addr, addresses, n));
    }
    freeifaddrs(all);
    return has;
}
