/*
 * The render nodes of the emulated GPUs, /dev/dri/renderD128 and on, as far as ROCm asks them: which driver it is, what the
 * GPU is, and memory that is passed on as a file (dma-buf) and given addresses. The structures are the kernel's headers'.
 */
#ifndef EMU_RENDER_H
#define EMU_RENDER_H

enum { EMU_RENDER_FIRST = 128, EMU_RENDER_MAJOR = 226 };

/* A call on an open file of the render node of a GPU: 0 or an errno. */
int emu_render_ioctl(int fd, int gpu, unsigned long request, void *argument);

#endif
