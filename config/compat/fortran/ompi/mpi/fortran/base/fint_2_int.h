/*
 * Stands in for the Open MPI header of this name, in all series.
 *
 * Packagers install Open MPI's internal headers without those of its Fortran bindings, yet ompi/op/op.h (and, from 6.0 on,
 * ompi/util/status.h) includes this one. Only what they use is here. configure adds this folder to the include path when
 * the real header is missing.
 */
#ifndef DMA_COMPAT_FINT_2_INT_H
#define DMA_COMPAT_FINT_2_INT_H

#include "mpi.h"

#define OMPI_INT_2_FINT(value) ((MPI_Fint)(value))
#define OMPI_FINT_2_INT(value) ((int)(value))

#endif
