core_sources += \
	ompi_coll_dma/plan/fields.c \
	ompi_coll_dma/plan/fields.h \
	ompi_coll_dma/plan/gpu_cost.c \
	ompi_coll_dma/plan/gpu_cost.h \
	ompi_coll_dma/plan/gpu_profile.c \
	ompi_coll_dma/plan/gpu_profile.h
core_sources += \
	ompi_coll_dma/plan/cluster.c \
	ompi_coll_dma/plan/cluster.h \
	ompi_coll_dma/plan/cluster_cost.c \
	ompi_coll_dma/plan/cluster_cost.h \
	ompi_coll_dma/plan/cluster_exchange.c \
	ompi_coll_dma/plan/cluster_gather.c \
	ompi_coll_dma/plan/layout.c \
	ompi_coll_dma/plan/layout.h \
	ompi_coll_dma/plan/net_profile.c \
	ompi_coll_dma/plan/net_profile.h
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
