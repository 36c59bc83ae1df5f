/*
 * All Open MPI headers that the component includes, and series.h, which has what differs between the series of Open MPI.
 */
#ifndef COLL_DMA_COMPAT_H
#define COLL_DMA_COMPAT_H

#include "ompi_config.h"

#include <stdio.h>

#include "mpi.h"

#include "ompi/communicator/communicator.h"
#include "ompi/datatype/ompi_datatype.h"
#include "ompi/group/group.h"
#include "ompi/info/info.h"
#include "ompi/mca/coll/base/base.h"
#include "ompi/mca/coll/base/coll_base_util.h"
#include "ompi/mca/coll/coll.h"
#include "ompi/mca/mca.h"
#include "ompi/mca/pml/pml.h"
#include "ompi/proc/proc.h"
#include "ompi/request/request.h"
#include "ompi/runtime/mpiruntime.h"
#include "ompi/runtime/params.h"
#include "opal/datatype/opal_convertor.h"
#include "opal/datatype/opal_datatype_internal.h"
#include "opal/mca/base/base.h"
#ifdef DMA_HAVE_EVENTS
#include "opal/mca/base/mca_base_event.h"
#endif
#include "opal/mca/base/mca_base_pvar.h"
#include "opal/mca/base/mca_base_var.h"
#include "opal/runtime/opal_progress.h"
#include "opal/util/argv.h"
#include "opal/util/output.h"
#include "opal/util/show_help.h"

#include "series.h"

#endif
