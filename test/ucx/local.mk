# Tests of the transport between nodes.
ucx_helpers = \
	test/ucx/procs.c \
	test/ucx/procs.h
if HAVE_UCX
unit_helpers += $(ucx_helpers)
# With MPI, beside its own transports.
mpi_programs += test/ucx/beside
endif
extra_files += $(ucx_helpers) test/ucx/beside.c
test_ucx_beside_CPPFLAGS = $(DMA_DEFINES) $(OMPI_PROGRAM_CPPFLAGS) -I$(top_srcdir)/include -I$(top_srcdir)/ucx_tl
test_ucx_beside_LDADD = libdma_core.la $(OMPI_PROGRAM_LIBS)
