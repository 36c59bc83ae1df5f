/*
 * Static probes (USDT) of the provider coll_dma, for bpftrace, perf, SystemTap and gdb; docs/user/trace.md has the list.
 *
 * A probe is one `nop` in the code and a note in the file, which says where the nop is and where its arguments are. A tool puts
 * a breakpoint there. Without a tool it costs the nop, and what it takes to have the arguments in registers or in memory; where
 * sys/sdt.h was not found at configure time, nothing. So arguments are values that are there anyway: no calls, no conditions.
 */
#ifndef DMA_PROBE_H
#define DMA_PROBE_H

#ifdef DMA_HAVE_SDT
#include <sys/sdt.h>
#define DMA_PROBE2(name, a, b)       DTRACE_PROBE2(coll_dma, name, a, b)
#define DMA_PROBE3(name, a, b, c)    DTRACE_PROBE3(coll_dma, name, a, b, c)
#define DMA_PROBE4(name, a, b, c, d) DTRACE_PROBE4(coll_dma, name, a, b, c, d)
#else
#define DMA_PROBE2(name, a, b)       ((void)0)
#define DMA_PROBE3(name, a, b, c)    ((void)0)
#define DMA_PROBE4(name, a, b, c, d) ((void)0)
#endif

#endif
