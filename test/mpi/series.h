/*
 * What tests and benchmarks may call with which series of Open MPI.
 *
 *     PERSISTENT(Allgather)(..., MPI_INFO_NULL, &request)    an extension in 4.1, MPI's own from 5.0 on
 *     HAVE_SESSIONS                                          MPI_Session_init and so on: from 5.0 on
 *     HAVE_LARGE_COUNTS                                      MPI_Allgather_c and so on: from 6.0 on
 */
#ifndef DMA_TEST_SERIES_H
#define DMA_TEST_SERIES_H

#include <mpi.h>

#define HAVE_SESSIONS     (OMPI_MAJOR_VERSION >= 5)
#define HAVE_LARGE_COUNTS (OMPI_MAJOR_VERSION >= 6)

#if OMPI_MAJOR_VERSION < 5
#include <mpi-ext.h>
#define PERSISTENT(name) MPIX_##name##_init
#else
#define PERSISTENT(name) MPI_##name##_init
#endif

#endif
