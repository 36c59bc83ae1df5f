# Which routes there are, and the texts of reasons.
core_sources += \
	ompi_coll_dma/reasons.c \
	ompi_coll_dma/routes.c
