# GPU runtimes: one table of calls, and what kind of memory an address is.
core_sources += \
	ompi_coll_dma/gpu/cuda.c \
	ompi_coll_dma/gpu/cuda.h \
	ompi_coll_dma/gpu/cuda_api.h \
	ompi_coll_dma/gpu/cuda_memory.c \
	ompi_coll_dma/gpu/cuda_stream.c \
	ompi_coll_dma/gpu/hip.c \
	ompi_coll_dma/gpu/hip.h \
	ompi_coll_dma/gpu/hip_api.h \
	ompi_coll_dma/gpu/hip_memory.c \
	ompi_coll_dma/gpu/hip_stream.c \
	ompi_coll_dma/gpu/internal.h \
	ompi_coll_dma/gpu/memory.c \
	ompi_coll_dma/gpu/memory.h \
	ompi_coll_dma/gpu/runtime.c \
	ompi_coll_dma/gpu/runtime.h

# Stands in for an application on a GPU; does without mpirun.
mpi_programs += test/gpu/runtime_check
test_gpu_runtime_check_SOURCES = \
	test/gpu/runtime_check.c \
	test/gpu/runtime_check.h \
	test/gpu/runtime_check_ipc.c \
	test/gpu/runtime_check_kinds.c
test_gpu_runtime_check_CFLAGS = $(AM_CFLAGS) -pthread
test_gpu_runtime_check_LDADD = libdma_core.la

# Compiled against the vendors' headers, where there are any.
scripts += test/gpu/headers.sh
documents += docs/memory-kinds.md
other_files += \
	test/gpu/cuda_api_check.c \
	test/gpu/hip_api_check.c
