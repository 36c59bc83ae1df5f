# Plans: which copies a call is made of, and what they cost.
core_sources += \
	ompi_coll_dma/plan/build.c \
	ompi_coll_dma/plan/build.h \
	ompi_coll_dma/plan/choose.c \
	ompi_coll_dma/plan/cluster/allgather.c \
	ompi_coll_dma/plan/cluster/alltoall.c \
	ompi_coll_dma/plan/cluster/cluster.c \
	ompi_coll_dma/plan/cluster/cluster.h \
	ompi_coll_dma/plan/cluster/cost.c \
	ompi_coll_dma/plan/cluster/cost.h \
	ompi_coll_dma/plan/cluster/net_profile.c \
	ompi_coll_dma/plan/cluster/net_profile.h \
	ompi_coll_dma/plan/cluster/node_map.c \
	ompi_coll_dma/plan/cluster/node_map.h \
	ompi_coll_dma/plan/fields.c \
	ompi_coll_dma/plan/fields.h \
	ompi_coll_dma/plan/gpu/cost.c \
	ompi_coll_dma/plan/gpu/cost.h \
	ompi_coll_dma/plan/gpu/profile.c \
	ompi_coll_dma/plan/gpu/profile.h \
	ompi_coll_dma/plan/gpu/push.c \
	ompi_coll_dma/plan/gpu/swap.c \
	ompi_coll_dma/plan/host/pair.c \
	ompi_coll_dma/plan/host/pipe.c \
	ompi_coll_dma/plan/host/slot.c \
	ompi_coll_dma/plan/profile.c \
	ompi_coll_dma/plan/profile.h \
	ompi_coll_dma/plan/status.c \
	ompi_coll_dma/plan/variants.c
