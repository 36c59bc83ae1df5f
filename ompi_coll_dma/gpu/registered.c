/* Host memory that devices may access: see registered.h. */
#include "gpu/registered.h"

#include <stdlib.h>

struct dma_registration {
    dma_registration_t *next;
    const void *addr;
    size_t bytes;
    uint64_t device_addr;
    int device;
    unsigned uses;
};

static dma_status_t register_host(const dma_gpu_runtime_t *rt, int device, void *addr, size_t bytes,
                                  uint64_t *device_addr)
{
    dma_gpu_scope_t scope;
    dma_status_t status = rt->enter(device, &scope);

    if (status == DMA_OK) {
        status = rt->host_register(addr, bytes, device_addr);
        rt->leave(&scope);
    }
    return status;
}

static bool contains(const dma_registration_t *p, const void *addr, size_t bytes)
{
    uintptr_t first = (uintptr_t)p->addr, at = (uintptr_t)addr;

    return at >= first && at - first <= p->bytes && bytes <= p->bytes - (at - first);
}

/* DMA_AGAIN: not now. */
static dma_status_t end_registration(const dma_gpu_runtime_t *rt, const dma_registration_t *p)
{
    dma_gpu_scope_t scope;
    dma_status_t status = DMA_OK;

    if (rt->enter_to_release(p->device, &scope) == DMA_OK) {
        status = rt->host_unregister((void *)(uintptr_t)p->addr);
        rt->leave(&scope);
    }
    return status;
}

/* Ends registrations without a user, if they can end now. */
static void end_unused(dma_registration_t **list, const dma_gpu_runtime_t *rt)
{
    dma_registration_t **link = list, *p;

    while ((p = *link)) {
        if (p->uses || end_registration(rt, p) == DMA_AGAIN) {
            link = &p->next;
        } else {
            *link = p->next;
            free(p);
        }
    }
}

static dma_status_t add_new(dma_registration_t **list, const dma_gpu_runtime_t *rt, int device, void *addr,
                            size_t bytes, dma_registration_t **made)
{
    dma_registration_t *p = malloc(sizeof(*p));
    dma_status_t status;

    if (!p) {
        return DMA_ERR_NOMEM;
    }
    *p = (dma_registration_t){.next = *list, .addr = addr, .bytes = bytes, .device = device};
    if ((status = register_host(rt, device, addr, bytes, &p->device_addr)) != DMA_OK) {
        free(p);
        return status;
    }
    *list = *made = p;
    return DMA_OK;
}

dma_status_t dma_registered_add(dma_registration_t **list, const dma_gpu_runtime_t *rt, int device, void *addr,
                                size_t bytes, uint64_t *device_addr)
{
    dma_status_t status = DMA_OK;
    dma_registration_t *p;

    end_unused(list, rt);
    for (p = *list; p && !contains(p, addr, bytes); p = p->next) {
    }
    if (!p) {
        status = add_new(list, rt, device, addr, bytes, &p);
    } else if (dma_gpu_is_lost(rt, p->device)) {
        status = DMA_UNSUPPORTED; /* the registration may have gone with the device */
    }
    if (status == DMA_OK) {
        p->uses++;
        *device_addr = p->device_addr + ((uintptr_t)addr - (uintptr_t)p->addr);
    }
    return status;
}

dma_status_t dma_registered_remove(dma_registration_t **list, const dma_gpu_runtime_t *rt, const void *addr)
{
    dma_registration_t *p;

    for (p = *list; p && !(p->uses && contains(p, addr, 1)); p = p->next) {
    }
    if (p) {
        p->uses--;
    }
    end_unused(list, rt);
    for (p = *list; p && (p->uses || !contains(p, addr, 1)); p = p->next) {
    }
    return p ? DMA_AGAIN : DMA_OK;
}

void dma_registered_forget(dma_registration_t **list)
{
    dma_registration_t *p;

    while ((p = *list)) {
        *list = p->next;
        free(p);
    }
}
