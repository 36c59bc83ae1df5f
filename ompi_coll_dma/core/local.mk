# Calls and communicators, without what is particular to a route.
core_sources += \
	ompi_coll_dma/core/channel.c \
	ompi_coll_dma/core/comm.c \
	ompi_coll_dma/core/comm.h \
	ompi_coll_dma/core/counters.c \
	ompi_coll_dma/core/counters.h \
	ompi_coll_dma/core/events.c \
	ompi_coll_dma/core/host.c \
	ompi_coll_dma/core/messages.c \
	ompi_coll_dma/core/plans.c \
	ompi_coll_dma/core/plans.h \
	ompi_coll_dma/core/params.c \
	ompi_coll_dma/core/proc.c \
	ompi_coll_dma/core/resolve.c \
	ompi_coll_dma/core/resolve.h \
	ompi_coll_dma/core/route.h \
	ompi_coll_dma/core/self.c \
	ompi_coll_dma/core/setup/bootstrap.c \
	ompi_coll_dma/core/setup/bootstrap.h \
	ompi_coll_dma/core/setup/choices.c \
	ompi_coll_dma/core/setup/choices.h \
	ompi_coll_dma/core/setup/cores.c \
	ompi_coll_dma/core/setup/cores.h \
	ompi_coll_dma/core/setup/geometry.c \
	ompi_coll_dma/core/setup/geometry.h \
	ompi_coll_dma/core/setup/measure.c \
	ompi_coll_dma/core/setup/measure.h \
	ompi_coll_dma/core/setup/setup.c \
	ompi_coll_dma/core/staging.c \
	ompi_coll_dma/core/staging.h \
	ompi_coll_dma/core/state.c \
	ompi_coll_dma/core/state.h \
	ompi_coll_dma/core/state_text.c \
	ompi_coll_dma/core/task.c \
	ompi_coll_dma/core/tracing.c \
	ompi_coll_dma/core/wait.c
