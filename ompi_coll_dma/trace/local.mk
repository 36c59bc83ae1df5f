# Time lines of calls.
core_sources += \
	ompi_coll_dma/trace/file.h \
	ompi_coll_dma/trace/trace.c \
	ompi_coll_dma/trace/trace.h
