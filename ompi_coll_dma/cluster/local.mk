# Calls over several nodes.
core_sources += \
	ompi_coll_dma/cluster/call.c \
	ompi_coll_dma/cluster/cluster.h \
	ompi_coll_dma/cluster/hosts.c \
	ompi_coll_dma/cluster/lane.c \
	ompi_coll_dma/cluster/peer.c \
	ompi_coll_dma/cluster/plans.c \
	ompi_coll_dma/cluster/relay.c \
	ompi_coll_dma/cluster/relay.h \
	ompi_coll_dma/cluster/route.c \
	ompi_coll_dma/cluster/setup.c
