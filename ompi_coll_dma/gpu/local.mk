# GPU runtimes: one table of calls, and what kind of memory an address is.
core_sources += \
	ompi_coll_dma/gpu/brief.c \
	ompi_coll_dma/gpu/brief.h \
	ompi_coll_dma/gpu/budget.c \
	ompi_coll_dma/gpu/budget.h \
	ompi_coll_dma/gpu/cuda/api.h \
	ompi_coll_dma/gpu/cuda/context.c \
	ompi_coll_dma/gpu/cuda/cuda.c \
	ompi_coll_dma/gpu/cuda/cuda.h \
	ompi_coll_dma/gpu/cuda/eager.c \
	ompi_coll_dma/gpu/cuda/eager_ptx.h \
	ompi_coll_dma/gpu/cuda/graph.c \
	ompi_coll_dma/gpu/cuda/mapped.c \
	ompi_coll_dma/gpu/cuda/memory.c \
	ompi_coll_dma/gpu/cuda/query.c \
	ompi_coll_dma/gpu/cuda/reset.c \
	ompi_coll_dma/gpu/cuda/stream.c \
	ompi_coll_dma/gpu/eager.h \
	ompi_coll_dma/gpu/eager_kernel.h \
	ompi_coll_dma/gpu/export.h \
	ompi_coll_dma/gpu/hip/api.h \
	ompi_coll_dma/gpu/hip/hip.c \
	ompi_coll_dma/gpu/hip/hip.h \
	ompi_coll_dma/gpu/hip/memory.c \
	ompi_coll_dma/gpu/hip/reset.c \
	ompi_coll_dma/gpu/hip/quiesce.c \
	ompi_coll_dma/gpu/hip/stream.c \
	ompi_coll_dma/gpu/internal.h \
	ompi_coll_dma/gpu/ipc.c \
	ompi_coll_dma/gpu/ipc.h \
	ompi_coll_dma/gpu/tied.c \
	ompi_coll_dma/gpu/tied.h \
	ompi_coll_dma/gpu/mapped.c \
	ompi_coll_dma/gpu/mapped.h \
	ompi_coll_dma/gpu/memory.c \
	ompi_coll_dma/gpu/memory.h \
	ompi_coll_dma/gpu/rect.c \
	ompi_coll_dma/gpu/registered.c \
	ompi_coll_dma/gpu/registered.h \
	ompi_coll_dma/gpu/reset.c \
	ompi_coll_dma/gpu/reset.h \
	ompi_coll_dma/gpu/runtime.c \
	ompi_coll_dma/gpu/runtime.h \
	ompi_coll_dma/gpu/shape.c \
	ompi_coll_dma/gpu/shape.h
# The source of eager_ptx.h (tools/ptx.sh).
extra_files += ompi_coll_dma/gpu/cuda/eager.cu
