# Shared memory of a node.
core_sources += \
	ompi_coll_dma/node/arena.c \
	ompi_coll_dma/node/arena.h \
	ompi_coll_dma/node/bell.c \
	ompi_coll_dma/node/bell.h \
	ompi_coll_dma/node/cross.c \
	ompi_coll_dma/node/cross.h \
	ompi_coll_dma/node/entry.h \
	ompi_coll_dma/node/giver.c \
	ompi_coll_dma/node/giver.h \
	ompi_coll_dma/node/pause.c \
	ompi_coll_dma/node/pause.h \
	ompi_coll_dma/node/plain.c \
	ompi_coll_dma/node/plain.h \
	ompi_coll_dma/node/registry.c \
	ompi_coll_dma/node/registry.h \
	ompi_coll_dma/node/window.c \
	ompi_coll_dma/node/window.h
