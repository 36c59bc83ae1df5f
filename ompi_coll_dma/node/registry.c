/* Mappings of arenas: see registry.h. */
#include "node/registry.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* One table per process, because a process has one address space. */
static struct {
    pthread_mutex_t lock;
    dma_mapping_t *list;
} registry = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint64_t pid_namespace(void)
{
    struct stat st;

    return stat("/proc/self/ns/pid", &st) ? 0 : (uint64_t)st.st_ino;
}

void dma_arena_identify(const dma_arena_t *arena, dma_arena_id_t *id)
{
    *id = (dma_arena_id_t){
        .nonce = dma_arena_nonce(arena),
        .bytes = dma_arena_bytes(arena),
        .pid_namespace = pid_namespace(),
        .pid = (int32_t)getpid(),
        .fd = dma_arena_fd(arena),
    };
    snprintf(id->path, sizeof(id->path), "%s", dma_arena_path(arena));
}

bool dma_mapping_alive(const dma_mapping_t *mapping)
{
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};

    if (mapping->fd < 0) {
        return true;
    }
    /* The kernel releases the owner's lock with the last descriptor of the file, that is, when the process ends. If
     * fcntl fails, there is no evidence that the process has ended. */
    return fcntl(mapping->fd, F_OFD_GETLK, &lock) || lock.l_type != F_UNLCK;
}

static void unmap(dma_mapping_t *mapping)
{
    if (mapping->fd >= 0) {
        munmap(mapping->base, mapping->bytes);
        close(mapping->fd);
    }
    free(mapping);
}

/* Drops mappings that no communicator uses: those of ended processes, or all. The caller holds the lock. */
static void drop_unused(bool all)
{
    for (dma_mapping_t **link = &registry.list; *link;) {
        dma_mapping_t *m = *link;

        if (!m->uses && m->fd >= 0 && (all || !dma_mapping_alive(m))) {
            *link = m->next;
            unmap(m);
        } else {
            link = &m->next;
        }
    }
}

dma_status_t dma_registry_add(const dma_arena_t *arena)
{
    dma_mapping_t *m = malloc(sizeof(*m));

    if (!m) {
        return DMA_ERR_NOMEM;
    }
    *m = (dma_mapping_t){
        .base = dma_arena_base(arena),
        .bytes = dma_arena_bytes(arena),
        .nonce = dma_arena_nonce(arena),
        .fd = -1,
        .pid = getpid(),
    };
    pthread_mutex_lock(&registry.lock);
    m->next = registry.list;
    registry.list = m;
    pthread_mutex_unlock(&registry.lock);
    return DMA_OK;
}

void dma_registry_remove(const dma_arena_t *arena)
{
    dma_mapping_t *m;

    pthread_mutex_lock(&registry.lock);
    for (dma_mapping_t **link = &registry.list; (m = *link); link = &m->next) {
        if (m->fd < 0 && m->nonce == dma_arena_nonce(arena)) {
            *link = m->next;
            free(m);
            break;
        }
    }
    pthread_mutex_unlock(&registry.lock);
}

static int open_arena(const dma_arena_id_t *id)
{
    char path[64];

    if (id->path[0]) {
        return open(id->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    }
    if (!id->pid_namespace || id->pid_namespace != pid_namespace()) {
        return -1; /* here, the pid is that of another process */
    }
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)id->pid, (int)id->fd);
    return open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
}

static dma_status_t map_arena(const dma_arena_id_t *id, dma_mapping_t **mapping, dma_reason_t *why)
{
    dma_mapping_t *m;
    const dma_arena_head_t *head;
    struct stat st;
    int fd = open_arena(id);

    *why = DMA_REASON_peer_memory_closed;
    if (fd < 0) {
        return DMA_UNSUPPORTED;
    }
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_uid != geteuid() || (uint64_t)st.st_size != id->bytes ||
        id->bytes < sizeof(*head)) {
        goto close_fd;
    }
    *why = DMA_REASON_arena_system;
    if (!(m = malloc(sizeof(*m)))) {
        goto close_fd;
    }
    *m = (dma_mapping_t){.bytes = id->bytes, .nonce = id->nonce, .fd = fd};
    m->base = mmap(NULL, m->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (m->base == MAP_FAILED) {
        goto free_mapping;
    }
    head = (const dma_arena_head_t *)m->base;
    if (head->magic != DMA_ARENA_MAGIC || head->nonce != id->nonce) {
        *why = DMA_REASON_peer_memory_closed;
        munmap(m->base, m->bytes);
        goto free_mapping;
    }
    m->pid = id->pid_namespace == pid_namespace() ? (pid_t)id->pid : 0;
    *mapping = m;
    return DMA_OK;

free_mapping:
    free(m);
close_fd:
    close(fd);
    return DMA_UNSUPPORTED;
}

dma_status_t dma_registry_get(const dma_arena_id_t *id, dma_mapping_t **mapping, dma_reason_t *why)
{
    dma_status_t status = DMA_OK;
    dma_mapping_t *m;

    *why = DMA_REASON_NONE;
    pthread_mutex_lock(&registry.lock);
    for (m = registry.list; m && m->nonce != id->nonce; m = m->next) {
    }
    if (!m) {
        drop_unused(false);
        status = map_arena(id, &m, why);
        if (status == DMA_OK) {
            m->next = registry.list;
            registry.list = m;
        }
    }
    if (status == DMA_OK) {
        m->uses++;
        *mapping = m;
    }
    pthread_mutex_unlock(&registry.lock);
    return status;
}

void dma_registry_share(dma_mapping_t *mapping)
{
    pthread_mutex_lock(&registry.lock);
    mapping->uses++;
    pthread_mutex_unlock(&registry.lock);
}

void dma_registry_put(dma_mapping_t *mapping)
{
    pthread_mutex_lock(&registry.lock);
    mapping->uses--;
    pthread_mutex_unlock(&registry.lock);
}

void dma_registry_drop_idle(void)
{
    pthread_mutex_lock(&registry.lock);
    drop_unused(true);
    pthread_mutex_unlock(&registry.lock);
}
