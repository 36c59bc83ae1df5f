/*
 * Names of the persistent collectives, for tests and benchmarks: an extension in Open MPI 4.1, MPI's own from 5.0 on.
 *
 *     PERSISTENT(Allgather)(..., MPI_INFO_NULL, &request)
 */
#ifndef DMA_TEST_PERSISTENT_H
#define DMA_TEST_PERSISTENT_H

#include <mpi.h>

#if OMPI_MAJOR_VERSION < 5
#include <mpi-ext.h>
#define PERSISTENT(name) MPIX_##name##_init
#else
#define PERSISTENT(name) MPI_##name##_init
#endif

#endif
