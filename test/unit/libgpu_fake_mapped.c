/*
 * The fake runtime: virtually mapped memory, of the application and of other processes. The file descriptor that stands
 * for an allocation is the descriptor of its memfd, so two processes, or two ranks of one process, see the same bytes.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libgpu_fake_internal.h"

/* Addresses that the code under test has reserved. */
typedef struct reservation {
    struct reservation *next;
    uint64_t base, bytes;
} reservation_t;

static reservation_t *reservations; /* guarded by the lock */

/* ---- the application ---- */

static uint64_t whole_pages(uint64_t bytes)
{
    return (bytes + FAKE_PAGE - 1) / FAKE_PAGE * FAKE_PAGE;
}

static int make_memory(uint64_t bytes)
{
    int fd = memfd_create("fake-gpu-part", MFD_CLOEXEC);

    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0) {
        fake_misuse("no memfd");
    }
    return fd;
}

static void map_part(int device, uint64_t at, uint64_t bytes, const fake_range_t *like)
{
    fake_range_t *r = fake_map_range(DMA_GPU_DEVICE_VMM, device, make_memory(bytes), bytes, (void *)(uintptr_t)at);

    pthread_mutex_lock(&fake_machine.lock);
    r->home = like->home;
    r->home_id = like->home_id;
    r->maps = like->maps;
    r->shareable = like->shareable;
    pthread_mutex_unlock(&fake_machine.lock);
}

void *fake_gpu_map(int device, uint64_t bytes, uint64_t part, bool shareable)
{
    uint64_t each = whole_pages(part), n = (bytes + each - 1) / each;
    void *at = mmap(NULL, n * each, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    fake_range_t like = {.home = (uintptr_t)at, .maps = n * each, .shareable = shareable};

    like.home_id = like.home | 1; /* the number of the addresses, whatever is mapped there */
    for (uint64_t i = 0; i < n; i++) {
        map_part(device, like.home + i * each, each, &like);
    }
    return at;
}

static fake_range_t range_at(uint64_t addr)
{
    fake_range_t *r, found;

    pthread_mutex_lock(&fake_machine.lock);
    if (!(r = fake_find_range(addr)) || !r->maps) {
        fake_misuse("nothing is mapped at %#lx", addr);
    }
    found = *r;
    pthread_mutex_unlock(&fake_machine.lock);
    return found;
}

/* maps in place, so that nobody else gets the addresses in between */
void fake_gpu_remap(void *addr, unsigned i)
{
    uint64_t part = range_at((uintptr_t)addr).size, at = (uintptr_t)addr + i * part;
    int fd = make_memory(part);
    fake_range_t *r;

    pthread_mutex_lock(&fake_machine.lock);
    r = fake_find_range(at);
    close(r->fd);
    r->fd = fd;
    r->id = fake_random() | 1; /* far from the ids of other memory */
    (void)mmap((void *)(uintptr_t)at, part, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
    pthread_mutex_unlock(&fake_machine.lock);
}

/* The caller holds the lock. The addresses stay mapped. */
static void forget(uint64_t base, dma_gpu_kind_t kind)
{
    fake_range_t **at = &fake_ranges, *r;

    while (*at && ((*at)->base != base || (*at)->kind != kind)) {
        at = &(*at)->next;
    }
    if (!(r = *at)) {
        fake_misuse("nothing is mapped at %#lx", base);
    }
    *at = r->next;
    close(r->fd);
    free(r);
}

void fake_gpu_unmap(void *addr)
{
    fake_range_t first = range_at((uintptr_t)addr);

    pthread_mutex_lock(&fake_machine.lock);
    for (uint64_t at = first.home; at < first.home + first.maps; at += first.size) {
        forget(at, DMA_GPU_DEVICE_VMM);
    }
    pthread_mutex_unlock(&fake_machine.lock);
    munmap(addr, first.maps);
}

/* ---- the table ---- */

static dma_status_t mapping(uint64_t addr, dma_gpu_mapping_t *m)
{
    dma_status_t status;
    fake_range_t *r;

    if (!fake_call("mapping", &status)) {
        return status;
    }
    pthread_mutex_lock(&fake_machine.lock);
    r = fake_find_range(addr);
    if (r) {
        *m = (dma_gpu_mapping_t){r->base, r->size, r->id, r->device, r->maps && r->shareable};
    }
    pthread_mutex_unlock(&fake_machine.lock);
    return r ? DMA_OK : DMA_UNSUPPORTED;
}

static dma_status_t map_export(uint64_t addr, int *fd)
{
    dma_status_t status;
    fake_range_t *r;

    fake_scope("map_export");
    if (!fake_call("map_export", &status)) {
        return status;
    }
    pthread_mutex_lock(&fake_machine.lock);
    r = fake_find_range(addr);
    if (r && (!r->maps || !r->shareable)) {
        fake_misuse("a file descriptor was asked for memory of kind %d at %#lx", (int)r->kind, addr);
    }
    *fd = r ? fcntl(r->fd, F_DUPFD_CLOEXEC, 0) : -1;
    pthread_mutex_unlock(&fake_machine.lock);
    return *fd < 0 ? DMA_UNSUPPORTED : DMA_OK;
}

static dma_status_t reserve(uint64_t bytes, uint64_t *base)
{
    reservation_t *r;
    dma_status_t status;

    fake_scope("reserve");
    if (!fake_call("reserve", &status)) {
        return status;
    }
    if (!bytes || bytes % FAKE_PAGE) {
        fake_misuse("%#lx bytes to reserve", bytes);
    }
    r = calloc(1, sizeof(*r));
    r->bytes = bytes;
    r->base = (uintptr_t)mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    pthread_mutex_lock(&fake_machine.lock);
    r->next = reservations;
    reservations = r;
    pthread_mutex_unlock(&fake_machine.lock);
    *base = r->base;
    return DMA_OK;
}

static dma_status_t map_import(uint64_t addr, uint64_t bytes, int fd)
{
    int device = fake_scope("map_import");
    dma_status_t status;
    struct stat file;

    if (!fake_call("map_import", &status)) {
        return status;
    }
    if (fstat(fd, &file) || (uint64_t)file.st_size != bytes) {
        return DMA_UNSUPPORTED; /* no such allocation */
    }
    (void)fake_map_range(DMA_GPU_DEVICE_IMPORTED, device, fcntl(fd, F_DUPFD_CLOEXEC, 0), bytes,
                         (void *)(uintptr_t)addr);
    return DMA_OK;
}

static dma_status_t unmap(uint64_t base, uint64_t bytes, const uint64_t *sizes, size_t n)
{
    reservation_t **at = &reservations, *r;
    dma_status_t status;

    fake_scope("unmap");
    if (!fake_call("unmap", &status)) {
        return status;
    }
    pthread_mutex_lock(&fake_machine.lock);
    while (*at && ((*at)->base != base || (*at)->bytes != bytes)) {
        at = &(*at)->next;
    }
    if (!(r = *at)) {
        fake_misuse("unmap of %#lx, which was not reserved", base);
    }
    *at = r->next;
    free(r);
    for (uint64_t i = 0, part = base; i < n; part += sizes[i++]) {
        forget(part, DMA_GPU_DEVICE_IMPORTED);
    }
    pthread_mutex_unlock(&fake_machine.lock);
    munmap((void *)(uintptr_t)base, bytes);
    return DMA_OK;
}

void fake_fill_mapped(dma_gpu_runtime_t *table)
{
    table->mapping = mapping;
    table->map_export = map_export;
    table->reserve = reserve;
    table->map_import = map_import;
    table->unmap = unmap;
}

void fake_mapped_end(void)
{
    if (reservations && !fake_machine.may_stay) {
        fake_misuse("%#lx reserved bytes at %#lx are left", reservations->bytes, reservations->base);
    }
    reservations = NULL;
}
