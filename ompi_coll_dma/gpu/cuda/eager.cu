/* The kernel of eager starts for CUDA devices. tools/ptx.sh makes eager_ptx.h of it; a build does not need a compiler for CUDA. */
#define DMA_EAGER_FN static __attribute__((device, always_inline))

#include <stdint.h>

DMA_EAGER_FN void *dma_eager_at(uint64_t address)
{
    return (void *)address;
}

/* Relaxed, in the scope of the system: not cached, and each half is stored as one. The memory clobber keeps the compiler from moving
 * the user's data across: in place, what is read here is written later. */
DMA_EAGER_FN void dma_eager_put(uint64_t address, const uint64_t *w)
{
    asm volatile("st.relaxed.sys.global.v2.b64 [%0], {%1, %2};" ::"l"(address), "l"(w[0]), "l"(w[1]) : "memory");
}

DMA_EAGER_FN void dma_eager_get(uint64_t address, uint64_t *w)
{
    asm volatile("ld.relaxed.sys.global.v2.b64 {%0, %1}, [%2];" : "=l"(w[0]), "=l"(w[1]) : "l"(address) : "memory");
}

DMA_EAGER_FN void dma_eager_store32(uint64_t address, uint32_t value)
{
    asm volatile("st.relaxed.sys.global.b32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}

/* The barrier in front of it makes what other threads of the block have written part of this. */
DMA_EAGER_FN void dma_eager_release32(uint64_t address, uint32_t value)
{
    asm volatile("st.release.sys.global.b32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}

DMA_EAGER_FN uint32_t dma_eager_load32(uint64_t address)
{
    uint32_t value;

    asm volatile("ld.relaxed.sys.global.b32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
    return value;
}

/* A barrier of the block of threads. Returns whether all have said yes. */
DMA_EAGER_FN int all_of_block(int yes)
{
    asm volatile("{\n\t.reg .pred p, q;\n\tsetp.ne.s32 p, %0, 0;\n\tbar.red.and.pred q, 0, p;\n\tselp.s32 %0, 1, 0, q;\n\t}" : "+r"(yes)::"memory");
    return yes;
}

#include "gpu/eager_kernel.h"

extern "C" __attribute__((global)) void dma_eager(const dma_eager_args_t args)
{
    dma_eager_thread_t t;
    int complete;

    t.first = __nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() + __nvvm_read_ptx_sreg_tid_x();
    t.step = __nvvm_read_ptx_sreg_nctaid_x() * __nvvm_read_ptx_sreg_ntid_x();
    t.row = __nvvm_read_ptx_sreg_ctaid_y();
    complete = dma_eager_run(&args, t);
    if (args.steps & DMA_EAGER_END) {
        complete = all_of_block(complete);
        if (__nvvm_read_ptx_sreg_tid_x() == 0) {
            dma_eager_end(&args, t.row * __nvvm_read_ptx_sreg_nctaid_x() + __nvvm_read_ptx_sreg_ctaid_x(), complete);
        }
    }
}
