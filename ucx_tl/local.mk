# Between nodes. Without UCX all of it is left out.
ucx_sources = \
	ucx_tl/calls.c \
	ucx_tl/calls.h \
	ucx_tl/internal.h \
	ucx_tl/listen.c \
	ucx_tl/match.c \
	ucx_tl/message.c \
	ucx_tl/net.c \
	ucx_tl/peer.c \
	ucx_tl/progress.c \
	ucx_tl/transports.c \
	ucx_tl/ucx_tl.h
ucx_tests = \
	test/unit/test_ucx_tl \
	test/unit/test_ucx_tl_faults \
	test/unit/test_ucx_tl_match \
	test/unit/test_ucx_tl_start
ucx_helpers = \
	test/ucx/procs.c \
	test/ucx/procs.h
if HAVE_UCX
core_sources += $(ucx_sources)
unit_tests += $(ucx_tests)
unit_helpers += $(ucx_helpers)
mpi_programs += test/ucx/beside
endif
other_files += $(ucx_sources) $(ucx_helpers) $(ucx_tests:=.c)

# With MPI, beside its own transports.
test_ucx_beside_CPPFLAGS = $(DMA_DEFINES) $(OMPI_PROGRAM_CPPFLAGS) -I$(top_srcdir)/include -I$(top_srcdir)/ucx_tl
test_ucx_beside_LDADD = libdma_core.la $(OMPI_PROGRAM_LIBS)
other_files += test/ucx/beside.c
