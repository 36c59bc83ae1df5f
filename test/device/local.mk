# Tests of collectives on device memory, on the emulated node.
mpi_programs += \
	test/device/across \
	test/device/apart \
	test/device/completions \
	test/device/counted \
	test/device/counts \
	test/device/held \
	test/device/lose \
	test/device/ran
extra_files += \
	test/device/accept.sh \
	test/device/across.sh \
	test/device/apart.sh \
	test/device/common.sh \
	test/device/completions.sh \
	test/device/counts.sh \
	test/device/cuda.sh \
	test/device/info.sh \
	test/device/lose.sh \
	test/device/mutants.sh \
	test/device/mutants.txt \
	test/device/osu.sh \
	test/device/sweep.sh \
	test/device/visible.sh

test_device_counted_SOURCES = test/device/counted.c test/device/cuda.c test/device/cuda.h test/device/hip.c test/device/hip.h test/device/pvar.h
test_device_counted_CPPFLAGS = $(MPI_CPPFLAGS)
test_device_counted_LDADD = $(OMPI_PROGRAM_LIBS) -ldl
test_device_counts_SOURCES = test/device/counts.c test/device/cuda.c test/device/cuda.h test/device/hip.c test/device/hip.h test/device/pvar.h
test_device_counts_CPPFLAGS = $(MPI_CPPFLAGS)
test_device_counts_LDADD = $(OMPI_PROGRAM_LIBS) -ldl
test_device_held_SOURCES = test/device/held.c test/device/cuda.c test/device/cuda.h test/device/hip.c test/device/hip.h
test_device_held_CPPFLAGS = $(MPI_CPPFLAGS)
test_device_held_LDADD = $(OMPI_PROGRAM_LIBS) -ldl
test_device_lose_SOURCES = test/device/lose.c test/device/cuda.c test/device/cuda.h test/device/hip.c test/device/hip.h
test_device_lose_CPPFLAGS = $(MPI_CPPFLAGS)
test_device_lose_LDADD = $(OMPI_PROGRAM_LIBS) -ldl
test_device_across_SOURCES = test/device/across.c test/device/cuda.c test/device/cuda.h test/device/hip.c test/device/hip.h
test_device_across_CPPFLAGS = $(MPI_CPPFLAGS)
test_device_across_LDADD = $(OMPI_PROGRAM_LIBS) -ldl -lpthread
test_device_apart_SOURCES = test/device/apart.c test/device/cuda.c test/device/cuda.h test/device/hip.c test/device/hip.h
test_device_apart_CPPFLAGS = $(MPI_CPPFLAGS)
test_device_apart_LDADD = $(OMPI_PROGRAM_LIBS) -ldl
test_device_completions_SOURCES = test/device/completions.c test/device/cuda.c test/device/cuda.h test/device/hip.c test/device/hip.h
test_device_completions_CPPFLAGS = $(MPI_CPPFLAGS)
test_device_completions_LDADD = $(OMPI_PROGRAM_LIBS) -ldl
test_device_ran_SOURCES = test/device/ran.c test/device/cuda.c test/device/cuda.h test/device/hip.c test/device/hip.h
test_device_ran_CPPFLAGS = $(MPI_CPPFLAGS)
test_device_ran_LDADD = $(OMPI_PROGRAM_LIBS) -ldl
