# Benchmarks.
mpi_programs += test/bench/aside test/bench/latency
test_bench_aside_CPPFLAGS = $(MPI_CPPFLAGS)
test_bench_aside_LDADD = $(OMPI_PROGRAM_LIBS)
test_bench_latency_SOURCES = test/bench/bare.c test/bench/bare.h test/bench/latency.c
test_bench_latency_CPPFLAGS = $(MPI_CPPFLAGS)
test_bench_latency_LDADD = $(OMPI_PROGRAM_LIBS)
extra_files += test/bench/between test/bench/compare test/bench/paired.py
