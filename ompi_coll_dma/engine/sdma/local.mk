# The engine that drives AMD Instinct SDMA queues.
core_sources += \
	ompi_coll_dma/engine/sdma/gen.c \
	ompi_coll_dma/engine/sdma/gen.h \
	ompi_coll_dma/engine/sdma/kfd.c \
	ompi_coll_dma/engine/sdma/kfd.h \
	ompi_coll_dma/engine/sdma/map.c \
	ompi_coll_dma/engine/sdma/map.h \
	ompi_coll_dma/engine/sdma/packet.c \
	ompi_coll_dma/engine/sdma/packet.h \
	ompi_coll_dma/engine/sdma/packet_rect.c \
	ompi_coll_dma/engine/sdma/provider.c \
	ompi_coll_dma/engine/sdma/provider.h \
	ompi_coll_dma/engine/sdma/provider_thunk.c \
	ompi_coll_dma/engine/sdma/ring.c \
	ompi_coll_dma/engine/sdma/ring.h \
	ompi_coll_dma/engine/sdma/rocr.c \
	ompi_coll_dma/engine/sdma/rocr.h \
	ompi_coll_dma/engine/sdma/topology.c \
	ompi_coll_dma/engine/sdma/topology.h \
	ompi_coll_dma/engine/sdma/topology_text.c \
	ompi_coll_dma/engine/sdma/topology_text.h

unit_tests += \
	test/unit/test_sdma_kfd \
	test/unit/test_sdma_map \
	test/unit/test_sdma_packet \
	test/unit/test_sdma_rect \
	test/unit/test_sdma_ring \
	test/unit/test_sdma_shaped \
	test/unit/test_sdma_thunk \
	test/unit/test_sdma_topology
unit_helpers += \
	test/unit/libkfd_fake.c \
	test/unit/libkfd_fake.h \
	test/unit/libkfd_fake_internal.h \
	test/unit/libkfd_fake_rocr.c \
	test/unit/libsdma_decode.c \
	test/unit/libsdma_decode.h \
	test/unit/libsdma_tree.c \
	test/unit/libsdma_tree.h
unit_cppflags = -DDMA_TEST_TOPOLOGIES='"$(abs_top_srcdir)/test/topologies"'
# The kernel's header, if there is one, wants one of DRM's, which may not be there.
test_unit_test_sdma_kfd_CPPFLAGS = $(AM_CPPFLAGS) -idirafter $(top_srcdir)/test/unit/kernel

# Machines for the tests of the topology and of the engine map.
other_files += \
	test/unit/kernel/drm/drm.h \
	test/topologies/mi210-2.txt \
	test/topologies/mi210-pcie.txt \
	test/topologies/mi250x.txt \
	test/topologies/mi300x-4.txt \
	test/topologies/mi300x-cpx.txt \
	test/topologies/mi300x-dpx.txt \
	test/topologies/mi300x-dpx-functions.txt \
	test/topologies/mi300x-spx.txt \
	test/topologies/mi308x.txt \
	test/topologies/mi325x.txt \
	test/topologies/mi350x.txt \
	test/topologies/multi-bit.txt \
	test/topologies/six-engines.txt
