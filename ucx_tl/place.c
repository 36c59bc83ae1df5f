/*
 * Where this process is on the IP network.
 *
 * UCX takes every IPv4 address of a peer for reachable over every interface of its own. If two hosts have the same address, a
 * connection to it ends on the host where it begins, at a port of another process or of none. So such addresses are excluded.
 * So are bridges that lead only to containers and virtual machines of the host: a connection to their address may end nowhere,
 * which takes minutes to notice.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

bool dma_ucx_ip_from(int family, const void *bytes, dma_ucx_ip_t *ip)
{
    static const dma_ucx_ip_t ipv4 = {.bytes = {[10] = 0xff, [11] = 0xff}};

    *ip = ipv4;
    if (family == AF_INET) {
        memcpy(ip->bytes + 12, bytes, 4);
    } else if (family == AF_INET6) {
        memcpy(ip->bytes, bytes, 16);
    }
    return family == AF_INET || family == AF_INET6;
}

bool dma_ucx_ip_of(const struct sockaddr_storage *address, dma_ucx_ip_t *ip)
{
    return dma_ucx_ip_from(address->ss_family,
                           address->ss_family == AF_INET
                               ? (const void *)&((const struct sockaddr_in *)address)->sin_addr
                               : &((const struct sockaddr_in6 *)address)->sin6_addr,
                           ip);
}

bool dma_ucx_is_ipv4(const dma_ucx_ip_t *ip)
{
    return IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)ip);
}

bool dma_ucx_port_of(const struct sockaddr_storage *address, dma_ucx_port_t *port)
{
    port->port = ntohs(address->ss_family == AF_INET ? ((const struct sockaddr_in *)address)->sin_port
                                                     : ((const struct sockaddr_in6 *)address)->sin6_port);
    return dma_ucx_ip_of(address, &port->ip);
}

socklen_t dma_ucx_address_of(const dma_ucx_port_t *port, struct sockaddr_storage *address)
{
    struct sockaddr_in *ipv4 = (struct sockaddr_in *)address;
    struct sockaddr_in6 *ipv6 = (struct sockaddr_in6 *)address;

    memset(address, 0, sizeof(*address));
    if (dma_ucx_is_ipv4(&port->ip)) {
        ipv4->sin_family = AF_INET;
        ipv4->sin_port = htons((uint16_t)port->port);
        memcpy(&ipv4->sin_addr, port->ip.bytes + 12, 4);
        return sizeof(*ipv4);
    }
    ipv6->sin6_family = AF_INET6;
    ipv6->sin6_port = htons((uint16_t)port->port);
    memcpy(&ipv6->sin6_addr, &port->ip, 16);
    return sizeof(*ipv6);
}

/* The size of `n` ports and their number. */
static size_t ports_bytes(uint32_t n)
{
    return sizeof(uint32_t) + n * sizeof(dma_ucx_port_t);
}

dma_status_t dma_ucx_address_pack(dma_ucx_stack_t *stack, const void *worker_address, size_t bytes)
{
    char *packed = malloc(ports_bytes(stack->nports) + bytes);

    if (!packed) {
        return DMA_ERR_NOMEM;
    }
    memcpy(packed, &stack->nports, sizeof(stack->nports));
    memcpy(packed + sizeof(stack->nports), stack->ports, stack->nports * sizeof(stack->ports[0]));
    memcpy(packed + ports_bytes(stack->nports), worker_address, bytes);
    stack->address = packed;
    stack->address_bytes = ports_bytes(stack->nports) + bytes;
    return DMA_OK;
}

dma_status_t dma_ucx_address_unpack(const void *address, size_t bytes, dma_ucx_peer_t *peer)
{
    const char *packed = address;
    size_t skip;

    if (bytes < sizeof(peer->nports)) {
        return DMA_ERR_NET;
    }
    memcpy(&peer->nports, packed, sizeof(peer->nports));
    skip = ports_bytes(peer->nports);
    if (peer->nports > DMA_UCX_PORTS || skip >= bytes) {
        return DMA_ERR_NET;
    }
    if (!(peer->ports = malloc(skip)) || !(peer->address = malloc(bytes - skip))) {
        free(peer->ports);
        peer->ports = NULL;
        return DMA_ERR_NOMEM;
    }
    memcpy(peer->ports, packed + sizeof(peer->nports), peer->nports * sizeof(peer->ports[0]));
    memcpy(peer->address, packed + skip, bytes - skip);
    return DMA_OK;
}

/* FNV-1a. */
#define FNV_START UINT64_C(0xcbf29ce484222325)

static uint64_t add_to_hash(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *at = data;

    for (size_t i = 0; i < bytes; i++) {
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

uint64_t dma_ucx_address_hash(const void *address, size_t bytes)
{
    return add_to_hash(FNV_START, address, bytes) | 1;
}

/* Containers of one host have the same boot id and different network namespaces; with the host's own network they have the same
 * namespace, whatever their host names are. */
static uint64_t find_space(void)
{
    char boot[64] = "";
    struct stat namespace = {0};
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
    uint64_t hash = FNV_START;

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

/* The kernel chooses where a connection comes from: it may be an address of an interface that the network does not listen on. */
static void add_other_addresses(dma_net_place_t *place)
{
    struct ifaddrs *all;

    if (getifaddrs(&all)) {
        return;
    }
    for (const struct ifaddrs *a = all; a && place->nhost_addresses < DMA_NET_PLACE_ADDRESSES; a = a->ifa_next) {
        uint32_t address;

        if (a->ifa_addr && a->ifa_addr->sa_family == AF_INET && !(a->ifa_flags & IFF_LOOPBACK)) {
            address = ((const struct sockaddr_in *)a->ifa_addr)->sin_addr.s_addr;
            if (!is_one_of(address, place->addresses, place->nhost_addresses)) {
                place->addresses[place->nhost_addresses++] = address;
            }
        }
    }
    freeifaddrs(all);
}

/* Those of the loopback interface are no address for other hosts. */
void dma_ucx_place_fill(dma_ucx_stack_t *stack)
{
    dma_net_place_t *place = &stack->place;

    place->space = find_space();
    place->address_bytes = (uint32_t)stack->address_bytes;
    for (uint32_t i = 0; i < stack->nports && place->naddresses < DMA_NET_PLACE_ADDRESSES; i++) {
        const unsigned char *ipv4 = stack->ports[i].ip.bytes + 12;

        if (dma_ucx_is_ipv4(&stack->ports[i].ip) && ipv4[0] != IN_LOOPBACKNET) {
            memcpy(&place->addresses[place->naddresses++], ipv4, sizeof(place->addresses[0]));
        }
    }
    place->nhost_addresses = place->naddresses;
    add_other_addresses(place);
}

/* Whether an IPv4 address of the interface is in a network such as 10.0.0.0/8. */
static bool is_in_network(const char *interface, const char *network)
{
    char text[INET_ADDRSTRLEN] = "";
    unsigned bits = 32;
    struct in_addr wanted;
    struct ifaddrs *all;
    bool in = false;
    uint32_t mask;

    if (sscanf(network, "%15[0-9.]/%u", text, &bits) < 1 || bits > 32 || inet_pton(AF_INET, text, &wanted) != 1 ||
        getifaddrs(&all)) {
        return false;
    }
    mask = bits ? htonl(UINT32_MAX << (32 - bits)) : 0;
    for (const struct ifaddrs *a = all; a; a = a->ifa_next) {
        in = in || (a->ifa_addr && a->ifa_addr->sa_family == AF_INET && !strcmp(a->ifa_name, interface) &&
                    !((((const struct sockaddr_in *)a->ifa_addr)->sin_addr.s_addr ^ wanted.s_addr) & mask));
    }
    freeifaddrs(all);
    return in;
}

bool dma_ucx_interface_in(const char *interface, const char *list)
{
    bool in = false;

    for (const char *word = list; !in && *word; word += strcspn(word, ",")) {
        size_t length;

        word += *word == ',';
        length = strcspn(word, ",");
        in = (length == strlen(interface) && !strncmp(word, interface, length)) || is_in_network(interface, word);
    }
    return in;
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

/* The driver of an interface, or "". */
static void find_driver(const char *interface, char driver[ETHTOOL_BUSINFO_LEN])
{
    struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};
    struct ifreq request = {.ifr_data = (char *)&info};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    snprintf(request.ifr_name, sizeof(request.ifr_name), "%.15s", interface);
    if (fd >= 0 && !ioctl(fd, SIOCETHTOOL, &request)) {
        snprintf(driver, ETHTOOL_BUSINFO_LEN, "%s", info.driver);
    }
    if (fd >= 0) {
        close(fd);
    }
}

/* The host's end of a cable to a container or a virtual machine. */
static bool leads_to_guest(const char *interface)
{
    char driver[ETHTOOL_BUSINFO_LEN] = "";

    find_driver(interface, driver);
    return !strcmp(driver, "veth") || !strcmp(driver, "tun");
}

bool dma_ucx_interface_is_inner(const char *interface)
{
    char path[64];
    struct dirent *port;
    bool inner = true;
    DIR *ports;

    snprintf(path, sizeof(path), "/sys/class/net/%.15s/brif", interface);
    if (!(ports = opendir(path))) {
        return false; /* no bridge */
    }
    while ((port = readdir(ports))) {
        inner = inner && (port->d_name[0] == '.' || leads_to_guest(port->d_name));
    }
    closedir(ports);
    return inner;
}
