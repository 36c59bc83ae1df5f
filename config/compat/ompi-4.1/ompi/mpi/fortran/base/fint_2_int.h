/*
 * Stands in for the Open MPI 4.1 header of this name.
 *
 * Packagers install Open MPI's internal headers without those of its Fortran bindings, yet ompi/op/op.h includes this
 * one. Only what op.h uses is here. configure adds this folder to the include path when the real header is missing.
 */
#ifndef DMA_COMPAT_FINT_2_INT_H
#define DMA_COMPAT_FINT_2_INT_H

#include "mpi.h"

#define OMPI_INT_2_FINT(value) ((MPI_Fint)(value))
#define OMPI_FINT_2_INT(value) ((int)(value))

#endif
