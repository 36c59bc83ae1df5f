extra_files += examples/osu/build examples/osu/compare examples/osu/page.py
mpi_programs += examples/allgather_check
examples_allgather_check_CPPFLAGS = $(MPI_CPPFLAGS)
examples_allgather_check_LDADD = $(OMPI_PROGRAM_LIBS)
