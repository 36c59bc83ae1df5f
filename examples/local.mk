extra_files += examples/osu/build examples/osu/compare examples/osu/page.py
mpi_programs += examples/allgather_check
examples_allgather_check_CPPFLAGS = $(MPI_CPPFLAGS)
examples_allgather_check_LDADD = $(OMPI_PROGRAM_LIBS)
mpi_programs += examples/counters
examples_counters_CPPFLAGS = $(MPI_CPPFLAGS)
examples_counters_LDADD = $(OMPI_PROGRAM_LIBS)
mpi_programs += examples/events
examples_events_CPPFLAGS = $(MPI_CPPFLAGS)
examples_events_LDADD = $(OMPI_PROGRAM_LIBS)
mpi_programs += examples/power
examples_power_SOURCES = examples/power.c examples/power.h
examples_power_CPPFLAGS = $(MPI_CPPFLAGS)
examples_power_CFLAGS = $(AM_CFLAGS) -pthread
examples_power_LDADD = $(OMPI_PROGRAM_LIBS)

# What users build as its comment says, and so does the suite `examples`.
extra_files += \
	examples/README.md \
	examples/allgather.c \
	examples/allgather.f90 \
	examples/allgather.py \
	examples/alltoall.c \
	examples/example.h \
	examples/example.py \
	examples/example_product.h \
	examples/fft2d.c \
	examples/kv_cache.c \
	examples/layer.c \
	examples/moe.c \
	examples/moe.py \
	examples/overlap.c \
	examples/partitions.c \
	examples/partitions.f90 \
	examples/partitions.py \
	examples/persistent.c \
	examples/queue.c \
	examples/slurm/gpu-per-task.sbatch \
	examples/slurm/many-nodes.sbatch \
	examples/slurm/one-node.sbatch \
	examples/slurm/with-mpirun.sbatch \
	examples/transformer.c \
	examples/transpose.f90 \
	examples/transpose.py
