# Several hosts on one machine, and what tests need on them. docs/dev/testing.md.

mpi_programs += test/bed/coll_loop
plain_programs += test/bed/delay_line test/bed/flow
test_bed_coll_loop_CPPFLAGS = $(MPI_CPPFLAGS)
test_bed_coll_loop_LDADD = $(OMPI_PROGRAM_LIBS)
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
	test/bed/tied.sh
