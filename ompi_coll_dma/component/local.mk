# What Open MPI loads.
component_sources += \
	ompi_coll_dma/component/absent.c \
	ompi_coll_dma/component/blocking.c \
	ompi_coll_dma/component/buffer.h \
	ompi_coll_dma/component/coll_dma.h \
	ompi_coll_dma/component/compat.h \
	ompi_coll_dma/component/component.c \
	ompi_coll_dma/component/counters.c \
	ompi_coll_dma/component/datatype.c \
	ompi_coll_dma/component/events.c \
	ompi_coll_dma/component/in_stream.c \
	ompi_coll_dma/component/module.c \
	ompi_coll_dma/component/net.c \
	ompi_coll_dma/component/nonblocking.c \
	ompi_coll_dma/component/params.c \
	ompi_coll_dma/component/persistent.c \
	ompi_coll_dma/component/prepare.c \
	ompi_coll_dma/component/progress.c \
	ompi_coll_dma/component/request.c \
	ompi_coll_dma/component/request.h \
	ompi_coll_dma/component/selection.c \
	ompi_coll_dma/component/series.h \
	ompi_coll_dma/component/services.c \
	ompi_coll_dma/component/terms.c

help_files += ompi_coll_dma/component/help-coll-dma.txt
