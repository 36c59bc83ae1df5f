# The interfaces between layers.
core_sources += \
	include/dma/clock.h \
	include/dma/comm.h \
	include/dma/copy.h \
	include/dma/counters.h \
	include/dma/counters_table.h \
	include/dma/engine.h \
	include/dma/events.h \
	include/dma/file_room.h \
	include/dma/host.h \
	include/dma/in_stream.h \
	include/dma/net.h \
	include/dma/params.h \
	include/dma/params_table.h \
	include/dma/parts.h \
	include/dma/plan.h \
	include/dma/probe.h \
	include/dma/reason.h \
	include/dma/reasons_table.h \
	include/dma/status.h \
	include/dma/thread.h
# Of the library of queues, for programs.
include_HEADERS = include/mpix_dma.h
extra_files += include/mpi_names.h
