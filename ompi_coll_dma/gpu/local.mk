# GPU runtimes: one table of calls, and what kind of memory an address is.
core_sources += \
	ompi_coll_dma/gpu/memory.h \
	ompi_coll_dma/gpu/runtime.h
