mpi_programs += examples/allgather_check
examples_allgather_check_CPPFLAGS = $(MPI_CPPFLAGS)
examples_allgather_check_LDADD = $(OMPI_PROGRAM_LIBS)
mpi_programs += examples/counters
examples_counters_CPPFLAGS = $(MPI_CPPFLAGS)
examples_counters_LDADD = $(OMPI_PROGRAM_LIBS)
