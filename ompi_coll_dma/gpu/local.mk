# GPU runtimes: one table of calls, and what kind of memory an address is.
core_sources += \
	ompi_coll_dma/gpu/cuda/cuda.c \
	ompi_coll_dma/gpu/cuda/cuda.h \
	ompi_coll_dma/gpu/cuda/api.h \
	ompi_coll_dma/gpu/cuda/memory.c \
	ompi_coll_dma/gpu/cuda/stream.c \
	ompi_coll_dma/gpu/hip/hip.c \
	ompi_coll_dma/gpu/hip/hip.h \
	ompi_coll_dma/gpu/hip/api.h \
	ompi_coll_dma/gpu/hip/memory.c \
	ompi_coll_dma/gpu/hip/reset.c \
	ompi_coll_dma/gpu/hip/settle.c \
	ompi_coll_dma/gpu/hip/stream.c \
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

unit_tests += \
	test/unit/test_gpu_fake \
	test/unit/test_gpu_memory \
	test/unit/test_gpu_runtime
unit_helpers += \
	test/unit/libgpu_fake.c \
	test/unit/libgpu_fake.h \
	test/unit/libgpu_fake_internal.h \
	test/unit/libgpu_fake_stream.c
# sees what is looked for
test_unit_test_gpu_runtime_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=dlopen

# Libraries that stand in for the vendors', for test_gpu_runtime: with HIP comes ROCr, and one of CUDA lacks calls.
fake_drivers = \
	test/unit/libamdhip64.so.6 \
	test/unit/libcuda.so.1 \
	test/unit/libcuda_poor.so \
	test/unit/libhsa-runtime64.so.1
fake_cuda_sources = test/gpu/fake_cuda.c test/gpu/fake_cuda_rest.c
fake_hip_sources = test/gpu/fake_hip.c test/gpu/fake_hip_rest.c
fake_driver_compile = mkdir -p test/unit && $(CC) $(DEFS) $(AM_CPPFLAGS) $(DMA_CFLAGS) $(CFLAGS) -fvisibility=default \
	-fPIC -shared $(AM_LDFLAGS) $(LDFLAGS) -o $@
other_files += \
	test/gpu/fake_driver.h \
	$(fake_cuda_sources) \
	$(fake_hip_sources)
check_DATA = $(fake_drivers)
unit: $(fake_drivers)
test/unit/libcuda.so.1: $(fake_cuda_sources) test/gpu/fake_driver.h ompi_coll_dma/gpu/cuda/api.h
	$(AM_V_CCLD)$(fake_driver_compile) -Wl,-soname,libcuda.so.1 $(fake_cuda_sources:%=$(srcdir)/%)
test/unit/libcuda_poor.so: test/gpu/fake_cuda.c test/gpu/fake_driver.h ompi_coll_dma/gpu/cuda/api.h
	$(AM_V_CCLD)$(fake_driver_compile) -Wl,-soname,libcuda.so.1 $(srcdir)/test/gpu/fake_cuda.c
test/unit/libamdhip64.so.6: $(fake_hip_sources) test/gpu/fake_driver.h ompi_coll_dma/gpu/hip/api.h
	$(AM_V_CCLD)$(fake_driver_compile) -Wl,-soname,libamdhip64.so.6 $(fake_hip_sources:%=$(srcdir)/%)
test/unit/libhsa-runtime64.so.1: test/unit/libamdhip64.so.6
	$(AM_V_CCLD)$(fake_driver_compile) -Wl,-soname,libhsa-runtime64.so.1 -Wl,--no-as-needed \
		-Wl,-rpath,'$$ORIGIN' $(abs_builddir)/test/unit/libamdhip64.so.6
mostlyclean-local:
	rm -f $(fake_drivers)
