# The testbed: several hosts on one machine, and programs for tests on them. See docs/dev/testing.md.

mpi_programs += test/bed/coll_loop test/bed/descriptors test/bed/first test/bed/first_calls
plain_programs += test/bed/delay_line test/bed/flow
test_bed_coll_loop_CPPFLAGS = $(MPI_CPPFLAGS)
test_bed_coll_loop_LDADD = $(OMPI_PROGRAM_LIBS)
test_bed_descriptors_CPPFLAGS = $(MPI_CPPFLAGS)
test_bed_descriptors_LDADD = $(OMPI_PROGRAM_LIBS)
test_bed_first_CPPFLAGS = $(MPI_CPPFLAGS)
test_bed_first_LDADD = $(OMPI_PROGRAM_LIBS)
test_bed_first_calls_SOURCES = test/bed/first_calls.c test/device/cuda.c test/device/cuda.h test/device/hip.c test/device/hip.h test/device/pvar.h test/mpi/forms.h
test_bed_first_calls_CPPFLAGS = $(MPI_CPPFLAGS)
test_bed_first_calls_LDADD = $(OMPI_PROGRAM_LIBS) -ldl
test_bed_delay_line_LDADD =
test_bed_flow_LDADD =

extra_files += \
	test/bed/agent.sh \
	test/bed/bed \
	test/bed/bed-ctl \
	test/bed/bed.sh \
	test/bed/common.sh \
	test/bed/faults.sh \
	test/bed/host.sh \
	test/bed/lib.sh \
	test/bed/nodes.sh \
	test/bed/rack.sh \
	test/bed/slurm.sh \
	test/bed/soak.sh \
	test/bed/slurm_jobs.sh \
	test/bed/tied.sh

# A component without UCX: all objects of the component except net.o, which is compiled again without UCX.
test_bed_inside = test/bed/inside/mca_coll_dma.so
$(test_bed_inside): mca_coll_dma.la $(top_srcdir)/ompi_coll_dma/component/net.c
	$(AM_V_CCLD)mkdir -p $(@D) && $(CC) $(DEFS) $(mca_coll_dma_la_CPPFLAGS) -UDMA_HAVE_UCX $(AM_CFLAGS) $(CFLAGS) -fPIC -shared \
		-o $@ $(top_srcdir)/ompi_coll_dma/component/net.c \
		`ls ompi_coll_dma/component/.libs/*.o | grep -v -- '-net\.o$$'` .libs/libdma_core.a \
		$(AM_LDFLAGS) $(LDFLAGS) $(OMPI_COMPONENT_LDFLAGS) $(OMPI_COMPONENT_LIBS)
