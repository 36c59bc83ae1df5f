# Which routes there are.
core_sources += \
	ompi_coll_dma/routes.c
