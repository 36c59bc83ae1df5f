# Behaves like an application on a GPU; needs no mpirun.
mpi_programs += test/gpu/runtime_check
test_gpu_runtime_check_SOURCES = \
	test/gpu/runtime_check.c \
	test/gpu/runtime_check.h \
	test/gpu/runtime_check_ipc.c \
	test/gpu/runtime_check_kinds.c
test_gpu_runtime_check_CFLAGS = $(AM_CFLAGS) -pthread
test_gpu_runtime_check_LDADD = libdma_core.la

# Measures staging; h200.sh runs it.
mpi_programs += test/gpu/stage_speed
test_gpu_stage_speed_SOURCES = test/gpu/stage_speed.c
test_gpu_stage_speed_CFLAGS = $(AM_CFLAGS) -pthread
test_gpu_stage_speed_LDADD = libdma_core.la

# Behaves like an application on CUDA; h200.sh runs it.
mpi_programs += test/gpu/app_check
test_gpu_app_check_SOURCES = test/gpu/app_check.c test/gpu/app_driver.c test/gpu/app_driver.h
test_gpu_app_check_CPPFLAGS = $(MPI_CPPFLAGS)
test_gpu_app_check_LDADD = $(OMPI_PROGRAM_LIBS) -ldl

# Measures each kind of memory; h200.sh runs it.
mpi_programs += test/gpu/app_table
test_gpu_app_table_SOURCES = test/gpu/app_table.c test/gpu/app_driver.c test/gpu/app_driver.h
test_gpu_app_table_CPPFLAGS = $(MPI_CPPFLAGS)
test_gpu_app_table_LDADD = $(OMPI_PROGRAM_LIBS) -ldl

# Measures late ranks beside products; h200.sh runs it.
mpi_programs += test/gpu/late
test_gpu_late_SOURCES = test/gpu/late.c test/gpu/matrix.h test/gpu/app_driver.c test/gpu/app_driver.h
test_gpu_late_CPPFLAGS = $(MPI_CPPFLAGS)
test_gpu_late_LDADD = $(OMPI_PROGRAM_LIBS) -ldl

# Measures layers whose products and collectives run side by side; h200.sh runs it.
mpi_programs += test/gpu/schedules/schedules
test_gpu_schedules_schedules_SOURCES = \
	test/gpu/schedules/arithmetic.c \
	test/gpu/schedules/layers.c \
	test/gpu/schedules/main.c \
	test/gpu/schedules/products.c \
	test/gpu/schedules/schedules.h \
	test/gpu/schedules/sides_mpi.c \
	test/gpu/schedules/sides_nccl.c \
	test/gpu/schedules/variants.c \
	test/gpu/schedules/ways.c \
	test/mpix/gpu.c \
	test/mpix/gpu.h \
	tools/bench/nccl_library.c \
	tools/bench/nccl_library.h
test_gpu_schedules_schedules_CPPFLAGS = $(MPI_CPPFLAGS) -I$(top_srcdir)/include -I$(top_srcdir)
test_gpu_schedules_schedules_LDFLAGS = $(AM_LDFLAGS) -no-install
test_gpu_schedules_schedules_LDADD = libmpix_dma.la $(OMPI_PROGRAM_LIBS) -ldl -lpthread

extra_files += \
	test/gpu/cuda_api_check.c \
	test/gpu/device.sh \
	test/gpu/gemm_cublas.c \
	test/gpu/h200.sh \
	test/gpu/headers.sh \
	test/gpu/hip_api_check.c \
	test/gpu/schedules.sh

# Libraries that replace the vendors', for test_gpu_runtime. HIP comes with ROCr. One of CUDA lacks calls.
fake_drivers = \
	test/unit/libamdhip64.so.6 \
	test/unit/libcuda.so.1 \
	test/unit/libcuda_poor.so \
	test/unit/libhsa-runtime64.so.1
fake_cuda_sources = test/gpu/fake_cuda.c test/gpu/fake_cuda_mapped.c test/gpu/fake_cuda_objects.c \
	test/gpu/fake_cuda_rest.c
fake_cuda_headers = test/gpu/fake_cuda.h test/gpu/fake_driver.h
fake_hip_sources = test/gpu/fake_hip.c test/gpu/fake_hip_rest.c
fake_driver_compile = mkdir -p test/unit && $(CC) $(DEFS) $(AM_CPPFLAGS) $(DMA_CFLAGS) $(CFLAGS) -fvisibility=default \
	-fPIC -shared $(AM_LDFLAGS) $(LDFLAGS) -o $@
extra_files += \
	$(fake_cuda_headers) \
	$(fake_cuda_sources) \
	$(fake_hip_sources)
check_DATA = $(fake_drivers)
unit: $(fake_drivers)
test/unit/libcuda.so.1: $(fake_cuda_sources) $(fake_cuda_headers) ompi_coll_dma/gpu/cuda/api.h
	$(AM_V_CCLD)$(fake_driver_compile) -Wl,-soname,libcuda.so.1 $(fake_cuda_sources:%=$(srcdir)/%)
test/unit/libcuda_poor.so: $(fake_cuda_sources) $(fake_cuda_headers) ompi_coll_dma/gpu/cuda/api.h
	$(AM_V_CCLD)$(fake_driver_compile) -Wl,-soname,libcuda.so.1 $(srcdir)/test/gpu/fake_cuda.c \
		$(srcdir)/test/gpu/fake_cuda_mapped.c $(srcdir)/test/gpu/fake_cuda_objects.c
test/unit/libamdhip64.so.6: $(fake_hip_sources) test/gpu/fake_driver.h ompi_coll_dma/gpu/hip/api.h
	$(AM_V_CCLD)$(fake_driver_compile) -Wl,-soname,libamdhip64.so.6 $(fake_hip_sources:%=$(srcdir)/%)
test/unit/libhsa-runtime64.so.1: test/unit/libamdhip64.so.6
	$(AM_V_CCLD)$(fake_driver_compile) -Wl,-soname,libhsa-runtime64.so.1 -Wl,--no-as-needed \
		-Wl,-rpath,'$$ORIGIN' $(abs_builddir)/test/unit/libamdhip64.so.6
mostlyclean-local:
	rm -f $(fake_drivers)
