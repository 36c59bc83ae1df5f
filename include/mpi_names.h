/*
 * What programs of MPI must know of the version of Open MPI. No other file asks for the version. component/series.h has what
 * differs inside Open MPI. The examples include none of our headers; they ask for features.
 *
 *     PERSISTENT(Allgather)(..., MPI_INFO_NULL, &request)    an extension in 4.1, MPI's own from 5.0 on
 *     PERSISTENT_PROFILE(Allgather)                          the same of the profiling interface
 *     TYPE_SIZE(type, &size)                                 MPI_Type_size with an MPI_Count
 *     HAVE_SESSIONS                                          MPI_Session_init and so on: from 5.0 on
 *     HAVE_LARGE_COUNTS                                      MPI_Allgather_c and so on: from 6.0 on
 *     HAVE_EVENTS                                            MPI_T_event_handle_alloc and so on, with events: from 6.0 on
 *     HAVE_WAITALL_ERRORS                                    MPI_Waitall returns errors of requests: until 5.0
 */
#ifndef MPI_NAMES_H
#define MPI_NAMES_H

#include <mpi.h>

#define DMA_OMPI_41 (OMPI_MAJOR_VERSION == 4 && OMPI_MINOR_VERSION == 1)
#define DMA_OMPI_50 (OMPI_MAJOR_VERSION == 5 && OMPI_MINOR_VERSION == 0)
#define DMA_OMPI_60 (OMPI_MAJOR_VERSION == 6 && OMPI_MINOR_VERSION == 0)
#if !DMA_OMPI_41 && !DMA_OMPI_50 && !DMA_OMPI_60
#error "coll/dma supports Open MPI 4.1, 5.0 and 6.0 only"
#endif

#define HAVE_SESSIONS       (!DMA_OMPI_41)
#define HAVE_LARGE_COUNTS   DMA_OMPI_60
#define HAVE_EVENTS         DMA_OMPI_60
#define HAVE_WAITALL_ERRORS (!DMA_OMPI_60)

#if DMA_OMPI_41
#include <mpi-ext.h>
#define PERSISTENT(name)         MPIX_##name##_init
#define PERSISTENT_PROFILE(name) PMPIX_##name##_init
#else
#define PERSISTENT(name)         MPI_##name##_init
#define PERSISTENT_PROFILE(name) PMPI_##name##_init
#endif

/* MPI 4.1 deprecates the older function. The newer one exists from MPI 4.0 on. */
#if HAVE_LARGE_COUNTS
#define TYPE_SIZE MPI_Type_size_c
#else
#define TYPE_SIZE MPI_Type_size_x
#endif

#endif
