core_sources += \
	ompi_coll_dma/plan/fields.c \
	ompi_coll_dma/plan/fields.h
