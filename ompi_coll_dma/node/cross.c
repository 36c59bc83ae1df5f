/* Cross-memory copies over process_vm_readv. */
#include "node/cross.h"

#include <sys/uio.h>

dma_status_t dma_cross_read(pid_t pid, void *dst, uint64_t addr, size_t bytes)
{
    char *to = dst;

    while (bytes) {
        struct iovec local = {.iov_base = to, .iov_len = bytes};
        struct iovec remote = {.iov_base = (void *)(uintptr_t)addr, .iov_len = bytes};
        ssize_t n = process_vm_readv(pid, &local, 1, &remote, 1, 0);

        if (n <= 0) {
            return DMA_UNSUPPORTED;
        }
        to += n; /* the kernel stops after 2 GiB and before an unmapped page */
        addr += (uint64_t)n;
        bytes -= (size_t)n;
    }
    return DMA_OK;
}

bool dma_cross_probe(pid_t pid, uint64_t addr, uint64_t value)
{
    uint64_t seen = ~value;

    return pid > 0 && dma_cross_read(pid, &seen, addr, sizeof(seen)) == DMA_OK && seen == value;
}
