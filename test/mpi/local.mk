# Tests that run under mpirun. A new program is one line in this list, and its variables below.
mpi_programs += \
	test/mpi/allcoll \
	test/mpi/badargs \
	test/mpi/big \
	test/mpi/counters \
	test/mpi/dupfree \
	test/mpi/kill \
	test/mpi/lacking \
	test/mpi/late \
	test/mpi/leave \
	test/mpi/match \
	test/mpi/overtake \
	test/mpi/prefer \
	test/mpi/stop \
	test/mpi/sweep \
	test/mpi/syscalls \
	test/mpi/threads \
	test/mpi/timed \
	test/mpi/unequal \
	test/mpi/vectors \
	test/mpi/waiting
extra_files += \
	test/mpi/big.sh \
	test/mpi/calls.sh \
	test/mpi/common.sh \
	test/mpi/counters.sh \
	test/mpi/examples.sh \
	test/mpi/forms.h \
	test/mpi/kill.sh \
	test/mpi/load.sh \
	test/mpi/namespaces.sh \
	test/mpi/nomem.sh \
	test/mpi/params.sh \
	test/mpi/state.sh \
	test/mpi/stock.supp \
	test/mpi/stop.sh \
	test/mpi/sweep.sh \
	test/mpi/sweep_selftest.sh \
	test/mpi/syscalls.sh \
	test/mpi/trace.sh \
	test/mpi/unequal.sh \
	test/mpi/valgrind.sh \
	test/mpi/vectors.sh \
	test/mpi/verify.h

test_mpi_allcoll_CPPFLAGS = $(MPI_CPPFLAGS)
test_mpi_allcoll_LDADD = $(OMPI_PROGRAM_LIBS)
test_mpi_badargs_CPPFLAGS = $(MPI_CPPFLAGS)
test_mpi_badargs_LDADD = $(OMPI_PROGRAM_LIBS)
test_mpi_big_CPPFLAGS = $(MPI_CPPFLAGS)
test_mpi_big_LDADD = $(OMPI_PROGRAM_LIBS)
test_mpi_counters_CPPFLAGS = $(MPI_CPPFLAGS)
test_mpi_counters_LDADD = $(OMPI_PROGRAM_LIBS)
test_mpi_dupfree_CPPFLAGS = $(MPI_CPPFLAGS)
test_mpi_dupfree_LDADD = $(OMPI_PROGRAM_LIBS)
test_mpi_kill_CPPFLAGS = $(MPI_CPPFLAGS)
test_mpi_kill_LDADD = $(OMPI_PROGRAM_LIBS)
test_mpi_lacking_CPPFLAGS = $(MPI_CPPFLAGS)
test_mpi_lacking_LDADD = $(OMPI_PROGRAM_LIBS)
test_mpi_late_CPPFLAGS = $(MPI_CPPFLAGS)
test_mpi_late_LDADD = $(OMPI_PROGRAM_LIBS)
test_mpi_leave_CPPFLAGS = $(MPI_CPPFLAGS)
test_mpi_leave_LDADD = $(OMPI_PROGRAM_LIBS)
test_mpi_match_CPPFLAGS = $(MPI_CPPFLAGS)
test_mpi_match_LDADD = $(OMPI_PROGRAM_LIBS)
test_mpi_overtake_CPPFLAGS = $(MPI_CPPFLAGS)
test_mpi_overtake_LDADD = $(OMPI_PROGRAM_LIBS)
test_mpi_prefer_CPPFLAGS = $(MPI_CPPFLAGS)
test_mpi_prefer_LDADD = $(OMPI_PROGRAM_LIBS)
test_mpi_stop_CPPFLAGS = $(MPI_CPPFLAGS)
test_mpi_stop_LDADD = $(OMPI_PROGRAM_LIBS)
test_mpi_syscalls_SOURCES = test/mpi/syscalls.c test/mpi/count_malloc.c test/mpi/count_malloc.h
test_mpi_syscalls_CPPFLAGS = $(MPI_CPPFLAGS)
test_mpi_syscalls_LDADD = $(OMPI_PROGRAM_LIBS)
test_mpi_threads_CPPFLAGS = $(MPI_CPPFLAGS)
test_mpi_threads_LDADD = $(OMPI_PROGRAM_LIBS)
test_mpi_unequal_CPPFLAGS = $(MPI_CPPFLAGS)
test_mpi_unequal_LDADD = $(OMPI_PROGRAM_LIBS)
test_mpi_vectors_CPPFLAGS = $(MPI_CPPFLAGS)
test_mpi_vectors_LDADD = $(OMPI_PROGRAM_LIBS) -ldl

# The random sweep.
sweep_sources = \
	test/device/cuda.c \
	test/device/cuda.h \
	test/device/hip.c \
	test/device/hip.h \
	test/device/pvar.h \
	test/mpi/sweep.c \
	test/mpi/sweep.h \
	test/mpi/sweep_buffer.c \
	test/mpi/sweep_call.c \
	test/mpi/sweep_case.c \
	test/mpi/sweep_comm.c \
	test/mpi/sweep_cover.c \
	test/mpi/sweep_memory.c \
	test/mpi/sweep_noise.c \
	test/mpi/sweep_ops.c \
	test/mpi/sweep_proof.c \
	test/mpi/sweep_report.c \
	test/mpi/sweep_run.c \
	test/mpi/sweep_type.c \
	tools/bench/device.c \
	tools/bench/device.h \
	tools/gpu_start.c \
	tools/gpu_start.h
test_mpi_sweep_SOURCES = $(sweep_sources)
test_mpi_sweep_CPPFLAGS = $(AM_CPPFLAGS) $(OMPI_PROGRAM_CPPFLAGS)
test_mpi_sweep_CFLAGS = $(AM_CFLAGS) -pthread
test_mpi_sweep_LDADD = libdma_core.la $(OMPI_PROGRAM_LIBS) -lm -ldl

# Preloaded into a test program, to break its calls or to read its counters; and the libraries that coll_dma_bench loads.
shims = \
	test/bench/libfake_load.so \
	test/bench/libfake_nccl.so \
	test/bench/libfake_smi.so \
	test/bench/liborder_shim.so \
	test/bench/librocm_shim.so \
	test/mpi/libbreak_shim.so \
	test/mpi/libcounters_shim.so \
	test/mpi/liblazy_shim.so \
	test/mpi/libnomem_shim.so
extra_files += test/mpi/break_shim.c test/mpi/counters_shim.c test/mpi/lazy_shim.c test/mpi/nomem_shim.c
test/bench/libfake_load.so: test/bench/fake_load.c
test/bench/libfake_nccl.so: test/bench/fake_nccl.c
test/bench/libfake_smi.so: test/bench/fake_smi.c
test/bench/liborder_shim.so: test/bench/order_shim.c
test/bench/librocm_shim.so: test/bench/rocm_shim.c
test/mpi/libbreak_shim.so: test/mpi/break_shim.c
test/mpi/liblazy_shim.so: test/mpi/lazy_shim.c
test/mpi/libcounters_shim.so: test/mpi/counters_shim.c
test/mpi/libnomem_shim.so: test/mpi/nomem_shim.c
$(shims):
	$(AM_V_CCLD)mkdir -p $(@D) && $(CC) $(DEFS) $(MPI_CPPFLAGS) $(AM_CFLAGS) $(CFLAGS) -fvisibility=default -fPIC -shared -o $@ $< \
		$(AM_LDFLAGS) $(LDFLAGS) $(OMPI_PROGRAM_LIBS)
test_mpi_timed_CPPFLAGS = $(MPI_CPPFLAGS)
test_mpi_timed_LDADD = $(OMPI_PROGRAM_LIBS)
test_mpi_waiting_CPPFLAGS = $(MPI_CPPFLAGS)
test_mpi_waiting_LDADD = $(OMPI_PROGRAM_LIBS)
