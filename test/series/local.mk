# Tests of what differs between the series of Open MPI.
series_programs = \
	test/series/counts \
	test/series/early \
	test/series/events \
	test/series/layout \
	test/series/revoke \
	test/series/sessions
mpi_programs += $(series_programs)
extra_files += \
	test/series/install.sh \
	test/series/large.sh \
	test/series/root.sh \
	test/series/series.sh \
	test/series/stranger.sh \
	test/series/wrong.sh

test_series_counts_CPPFLAGS = $(MPI_CPPFLAGS)
test_series_counts_LDADD = $(OMPI_PROGRAM_LIBS)
test_series_early_CPPFLAGS = $(MPI_CPPFLAGS)
test_series_early_LDADD = $(OMPI_PROGRAM_LIBS)
test_series_events_CPPFLAGS = $(MPI_CPPFLAGS)
test_series_events_LDADD = $(OMPI_PROGRAM_LIBS)
# Sees Open MPI as the component does.
test_series_layout_CPPFLAGS = $(mca_coll_dma_la_CPPFLAGS)
test_series_layout_LDADD = $(OMPI_COMPONENT_LDFLAGS) $(OMPI_COMPONENT_LIBS)
test_series_revoke_CPPFLAGS = $(MPI_CPPFLAGS)
test_series_revoke_LDADD = $(OMPI_PROGRAM_LIBS)
test_series_sessions_CPPFLAGS = $(MPI_CPPFLAGS)
test_series_sessions_LDADD = $(OMPI_PROGRAM_LIBS)
