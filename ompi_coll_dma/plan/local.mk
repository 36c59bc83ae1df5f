core_sources += \
	ompi_coll_dma/plan/fields.c \
	ompi_coll_dma/plan/fields.h \
	ompi_coll_dma/plan/gpu_cost.c \
	ompi_coll_dma/plan/gpu_cost.h \
	ompi_coll_dma/plan/gpu_profile.c \
	ompi_coll_dma/plan/gpu_profile.h
