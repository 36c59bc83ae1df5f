# The engine that copies with the GPU's own runtime.
core_sources += \
	ompi_coll_dma/engine/stream/engine.c \
	ompi_coll_dma/engine/stream/self_copy.c \
	ompi_coll_dma/engine/stream/self_copy.h \
	ompi_coll_dma/engine/stream/stream.h \
	ompi_coll_dma/engine/stream/work.c \
	ompi_coll_dma/engine/stream/work.h

unit_tests += test/unit/test_stream test/unit/test_stream_own
unit_helpers += test/unit/libstream.c test/unit/libstream.h

# Measures collectives in device memory; what it loads is built by hand where a vendor's libraries are.
mpi_programs += test/gpu/gpu_bench
test_gpu_gpu_bench_SOURCES = \
	test/gpu/device.c \
	test/gpu/device.h \
	test/gpu/gpu_bench.c \
	test/gpu/gpu_bench.h \
	test/gpu/gpu_bench_load.c \
	test/gpu/gpu_bench_modes.c \
	test/gpu/gpu_bench_table.c \
	test/gpu/gpu_bench_time.c \
	test/gpu/plugin.h
test_gpu_gpu_bench_CPPFLAGS = $(AM_CPPFLAGS) $(OMPI_PROGRAM_CPPFLAGS)
test_gpu_gpu_bench_LDADD = libdma_core.la $(OMPI_PROGRAM_LIBS) -lm -lrt
scripts += test/gpu/device.sh test/gpu/h200.sh
other_files += \
	test/gpu/gemm_cublas.c \
	test/gpu/rival_nccl.c
