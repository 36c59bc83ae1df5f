/* Calls of the thunk with which the runtime is linked, and which this node does not support or ignores. */
#include "api.h"

#include <string.h>

/* The runtime calls this once at the start, and works without it. */
HSAKMT_STATUS hsaKmtRuntimeEnable(void *debug, bool trap_temporaries)
{
    (void)debug;
    (void)trap_temporaries;
    return HSAKMT_STATUS_NOT_SUPPORTED;
}

HSAKMT_STATUS hsaKmtRuntimeDisable(void)
{
    return HSAKMT_STATUS_NOT_SUPPORTED;
}

HSAKMT_STATUS hsaKmtGetXNACKMode(HSAint32 *enabled)
{
    EMU_API_ENTER();
    *enabled = 0;
    return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtSetXNACKMode(HSAint32 enable)
{
    EMU_API_ENTER();
    return enable ? HSAKMT_STATUS_NOT_SUPPORTED : HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtSVMSetAttr(void *start, HSAuint64 bytes, unsigned int count, HSA_SVM_ATTRIBUTE *attributes)
{
    (void)start;
    (void)bytes;
    (void)count;
    (void)attributes;
    return HSAKMT_STATUS_NOT_SUPPORTED;
}

HSAKMT_STATUS hsaKmtSVMGetAttr(void *start, HSAuint64 bytes, unsigned int count, HSA_SVM_ATTRIBUTE *attributes)
{
    return hsaKmtSVMSetAttr(start, bytes, count, attributes);
}

HSAKMT_STATUS hsaKmtRegisterGraphicsHandleToNodes(HSAuint64 handle, HsaGraphicsResourceInfo *info, HSAuint64 count,
                                                  HSAuint32 *nodes)
{
    (void)handle;
    (void)info;
    (void)count;
    (void)nodes;
    return HSAKMT_STATUS_NOT_SUPPORTED;
}

HSAKMT_STATUS hsaKmtAllocQueueGWS(HSA_QUEUEID queue, HSAuint32 count, HSAuint32 *first)
{
    (void)queue;
    (void)count;
    (void)first;
    return HSAKMT_STATUS_NOT_SUPPORTED;
}

/* No effect: no waves run that could trap, and caches are not modelled. */
HSAKMT_STATUS hsaKmtSetTrapHandler(HSAuint32 node, void *handler, HSAuint64 bytes, void *buffer, HSAuint64 buffer_bytes)
{
    EMU_API_ENTER();
    (void)handler;
    (void)bytes;
    (void)buffer;
    (void)buffer_bytes;
    return emu_is_gpu(node) ? HSAKMT_STATUS_SUCCESS : HSAKMT_STATUS_INVALID_NODE_UNIT;
}

HSAKMT_STATUS hsaKmtSetMemoryPolicy(HSAuint32 node, HSAuint32 policy, HSAuint32 alternate, void *address,
                                    HSAuint64 bytes)
{
    EMU_API_ENTER();
    (void)policy;
    (void)alternate;
    (void)address;
    (void)bytes;
    return emu_is_gpu(node) ? HSAKMT_STATUS_SUCCESS : HSAKMT_STATUS_INVALID_NODE_UNIT;
}

HSAKMT_STATUS hsaKmtSetQueueCUMask(HSA_QUEUEID queue, HSAuint32 count, HSAuint32 *mask)
{
    EMU_API_ENTER();
    (void)queue;
    (void)count;
    (void)mask;
    return HSAKMT_STATUS_SUCCESS;
}
