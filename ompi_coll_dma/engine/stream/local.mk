# The engine that copies with the GPU's own runtime.
core_sources += \
	ompi_coll_dma/engine/stream/engine.c \
	ompi_coll_dma/engine/stream/own.c \
	ompi_coll_dma/engine/stream/own.h \
	ompi_coll_dma/engine/stream/stream.h \
	ompi_coll_dma/engine/stream/work.c \
	ompi_coll_dma/engine/stream/work.h

unit_tests += test/unit/test_stream
