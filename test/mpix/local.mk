# Tests of libmpix_dma.
mpi_programs += test/mpix/advised test/mpix/armed test/mpix/cases test/mpix/parts test/mpix/parts_cases test/mpix/parts_idle test/mpix/rounds \
	test/mpix/stream_cases test/mpix/streams
extra_files += $(mpix_fake_sources) test/mpix/common.sh test/mpix/mutants.sh test/mpix/mutants.txt test/mpix/queues.sh \
	test/mpix/streams.sh
test_mpix_advised_SOURCES = test/mpix/advised.c
test_mpix_advised_CPPFLAGS = $(MPI_CPPFLAGS) -I$(top_srcdir)/include
test_mpix_advised_LDFLAGS = $(AM_LDFLAGS) -no-install
test_mpix_advised_LDADD = libmpix_dma.la $(OMPI_PROGRAM_LIBS) -lm
test_mpix_armed_SOURCES = test/mpix/armed.c test/device/cuda.c test/device/cuda.h test/device/hip.c test/device/hip.h
test_mpix_armed_CPPFLAGS = $(MPI_CPPFLAGS) -I$(top_srcdir)/include
test_mpix_armed_LDFLAGS = $(AM_LDFLAGS) -no-install
test_mpix_armed_LDADD = libmpix_dma.la $(OMPI_PROGRAM_LIBS) -ldl -lpthread
test_mpix_cases_SOURCES = test/mpix/cases.c test/mpix/gpu.c test/mpix/gpu.h
test_mpix_cases_CPPFLAGS = $(MPI_CPPFLAGS) -I$(top_srcdir)/include
# -no-install: programs and not libtool's scripts, because a test preloads the library.
test_mpix_cases_LDFLAGS = $(AM_LDFLAGS) -no-install
test_mpix_cases_LDADD = libmpix_dma.la $(OMPI_PROGRAM_LIBS) -ldl -lpthread
test_mpix_rounds_SOURCES = test/mpix/rounds.c test/mpix/gpu.c test/mpix/gpu.h
test_mpix_rounds_CPPFLAGS = $(MPI_CPPFLAGS) -I$(top_srcdir)/include
test_mpix_rounds_LDFLAGS = $(AM_LDFLAGS) -no-install
test_mpix_rounds_LDADD = libmpix_dma.la $(OMPI_PROGRAM_LIBS) -ldl -lpthread
test_mpix_parts_SOURCES = test/mpix/parts.c test/mpix/gpu.c test/mpix/gpu.h
test_mpix_parts_CPPFLAGS = $(MPI_CPPFLAGS) -I$(top_srcdir)/include
test_mpix_parts_LDFLAGS = $(AM_LDFLAGS) -no-install
test_mpix_parts_LDADD = libmpix_dma.la $(OMPI_PROGRAM_LIBS) -ldl -lpthread
test_mpix_parts_cases_SOURCES = test/mpix/parts_cases.c test/mpix/parts_data.h test/mpix/gpu.c test/mpix/gpu.h
test_mpix_parts_cases_CPPFLAGS = $(MPI_CPPFLAGS) -I$(top_srcdir)/include
test_mpix_parts_cases_LDFLAGS = $(AM_LDFLAGS) -no-install
test_mpix_parts_cases_LDADD = libmpix_dma.la $(OMPI_PROGRAM_LIBS) -ldl -lpthread
test_mpix_parts_idle_SOURCES = test/mpix/parts_idle.c test/mpix/parts_data.h test/mpix/gpu.c test/mpix/gpu.h
test_mpix_parts_idle_CPPFLAGS = $(MPI_CPPFLAGS) -I$(top_srcdir)/include
test_mpix_parts_idle_LDFLAGS = $(AM_LDFLAGS) -no-install
test_mpix_parts_idle_LDADD = libmpix_dma.la $(OMPI_PROGRAM_LIBS) -ldl -lpthread
test_mpix_stream_cases_SOURCES = test/mpix/stream_cases.c test/mpix/stream_freed.c test/mpix/stream_lane.c test/mpix/stream_lane.h test/mpix/gpu.c test/mpix/gpu.h \
	test/device/pvar.h
test_mpix_stream_cases_CPPFLAGS = $(MPI_CPPFLAGS) -I$(top_srcdir)/include
test_mpix_stream_cases_LDFLAGS = $(AM_LDFLAGS) -no-install
test_mpix_stream_cases_LDADD = libmpix_dma.la $(OMPI_PROGRAM_LIBS) -ldl -lpthread
test_mpix_streams_SOURCES = test/mpix/streams.c test/mpix/gpu.c test/mpix/gpu.h test/device/pvar.h
test_mpix_streams_CPPFLAGS = $(MPI_CPPFLAGS) -I$(top_srcdir)/include
test_mpix_streams_LDFLAGS = $(AM_LDFLAGS) -no-install
test_mpix_streams_LDADD = libmpix_dma.la $(OMPI_PROGRAM_LIBS) -ldl -lpthread

# The fake CUDA, and what it refuses.
plain_programs += test/mpix/fake_check
test_mpix_fake_check_SOURCES = test/mpix/fake_check.c test/mpix/fake_cuda.h
test_mpix_fake_check_LDADD = -ldl -lpthread
mpix_fake_sources = \
	test/mpix/fake_cuda.c \
	test/mpix/fake_cuda.h \
	test/mpix/fake_cuda_graph.c \
	test/mpix/fake_cuda_kernel.c \
	test/mpix/fake_cuda_memory.c \
	test/mpix/fake_cuda_query.c \
	test/mpix/fake_cuda_stream.c \
	test/mpix/fake_cuda_work.c
mpix_fakes = test/mpix/fake/libcuda.so.1
test/mpix/fake/libcuda.so.1: $(mpix_fake_sources) ompi_coll_dma/gpu/cuda/api.h
	$(AM_V_CCLD)mkdir -p $(@D) && $(CC) $(DEFS) -D_GNU_SOURCE $(AM_CPPFLAGS) $(DMA_CFLAGS) $(CFLAGS) -fPIC -shared -pthread -o $@ \
		$(filter %.c,$^) -Wl,-soname,libcuda.so.1 $(AM_LDFLAGS) $(LDFLAGS)
