/*
 * The render nodes of the emulated GPUs, /dev/dri/renderD128 and the following ones, as far as ROCm uses them: queries of the
 * driver and of the GPU, and memory that is imported as a dma-buf and mapped. The structures are those of the kernel's headers.
 */
#ifndef EMU_RENDER_H
#define EMU_RENDER_H

enum { EMU_RENDER_FIRST = 128, EMU_RENDER_MAJOR = 226 };

/* An ioctl on an open file of the render node of a GPU. Returns 0 or an errno. */
int emu_render_ioctl(int fd, int gpu, unsigned long request, void *argument);

#endif
