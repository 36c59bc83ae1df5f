core_sources += \
	ompi_coll_dma/plan/fields.c \
	ompi_coll_dma/plan/fields.h \
	ompi_coll_dma/plan/gpu/cost.c \
	ompi_coll_dma/plan/gpu/cost.h \
	ompi_coll_dma/plan/gpu/profile.c \
	ompi_coll_dma/plan/gpu/profile.h
core_sources += \
	ompi_coll_dma/plan/cluster/cluster.c \
	ompi_coll_dma/plan/cluster/cluster.h \
	ompi_coll_dma/plan/cluster/cost.c \
	ompi_coll_dma/plan/cluster/cost.h \
	ompi_coll_dma/plan/cluster/alltoall.c \
	ompi_coll_dma/plan/cluster/allgather.c \
	ompi_coll_dma/plan/cluster/node_map.c \
	ompi_coll_dma/plan/cluster/node_map.h \
	ompi_coll_dma/plan/cluster/net_profile.c \
	ompi_coll_dma/plan/cluster/net_profile.h
unit_tests += \
	test/unit/test_cluster \
	test/unit/test_cluster_comm \
	test/unit/test_cluster_exchange \
	test/unit/test_cluster_kept \
	test/unit/test_cluster_told
unit_helpers += \
	test/unit/libcluster.c \
	test/unit/libcluster.h \
	test/unit/libpart.c \
	test/unit/libpart.h \
	test/unit/libwire.c \
	test/unit/libwire.h
# counts the plans that are built
test_unit_test_cluster_kept_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=dma_cluster_build,--wrap=dma_cluster_bytes
# one rank of it has no memory left
test_unit_test_cluster_told_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc,--wrap=calloc
