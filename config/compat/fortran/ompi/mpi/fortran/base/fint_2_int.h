/*
 * Replaces the Open MPI header of this name, in all series.
 *
 * Packagers install Open MPI's internal headers without those of its Fortran bindings. But ompi/op/op.h (and, from 6.0 on,
 * ompi/util/status.h) includes this one. Here is only what they use. configure adds this folder to the include path if the
 * real header is missing.
 */
#ifndef DMA_COMPAT_FINT_2_INT_H
#define DMA_COMPAT_FINT_2_INT_H

#include "mpi.h"

#define OMPI_INT_2_FINT(value) ((MPI_Fint)(value))
#define OMPI_FINT_2_INT(value) ((int)(value))

#endif
