# Calls on device memory.
core_sources += \
	ompi_coll_dma/device/app_stream.c \
	ompi_coll_dma/device/attach.c \
	ompi_coll_dma/device/bounce.c \
	ompi_coll_dma/device/by_slots.c \
	ompi_coll_dma/device/call.c \
	ompi_coll_dma/device/comm.c \
	ompi_coll_dma/device/copies.c \
	ompi_coll_dma/device/device.h \
	ompi_coll_dma/device/gather.c \
	ompi_coll_dma/device/gather.h \
	ompi_coll_dma/device/join.c \
	ompi_coll_dma/device/join.h \
	ompi_coll_dma/device/scratch.c \
	ompi_coll_dma/device/in_stream.c \
	ompi_coll_dma/device/in_stream.h \
	ompi_coll_dma/device/lease.c \
	ompi_coll_dma/device/lease.h \
	ompi_coll_dma/device/parts.c \
	ompi_coll_dma/device/persistent.c \
	ompi_coll_dma/device/pieces.c \
	ompi_coll_dma/device/pins.c \
	ompi_coll_dma/device/pins.h \
	ompi_coll_dma/device/proc.c \
	ompi_coll_dma/device/resolve.c \
	ompi_coll_dma/device/route.c \
	ompi_coll_dma/device/shape.c \
	ompi_coll_dma/device/slot_copies.c \
	ompi_coll_dma/device/slot_copies.h \
	ompi_coll_dma/device/slots.c \
	ompi_coll_dma/device/slots.h \
	ompi_coll_dma/device/stage.c \
	ompi_coll_dma/device/submitter.c \
	ompi_coll_dma/device/trace.c \
	ompi_coll_dma/device/typed.c \
	ompi_coll_dma/device/write.c \
	ompi_coll_dma/device/write.h
