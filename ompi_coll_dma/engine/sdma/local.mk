# The engine that drives AMD Instinct SDMA queues.
core_sources += \
	ompi_coll_dma/engine/sdma/gen.c \
	ompi_coll_dma/engine/sdma/gen.h \
	ompi_coll_dma/engine/sdma/packet.c \
	ompi_coll_dma/engine/sdma/packet.h \
	ompi_coll_dma/engine/sdma/packet_rect.c \
	ompi_coll_dma/engine/sdma/ring.c \
	ompi_coll_dma/engine/sdma/ring.h

unit_tests += \
	test/unit/test_sdma_packet \
	test/unit/test_sdma_rect \
	test/unit/test_sdma_ring
unit_helpers += \
	test/unit/libsdma_decode.c \
	test/unit/libsdma_decode.h
