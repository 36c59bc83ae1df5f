# The public library of queues and partitioned collectives. The component does not use it.
lib_LTLIBRARIES = libmpix_dma.la
dist_man_MANS += mpix/MPIX_Pallgather_init.3 mpix/MPIX_Queue_init.3
extra_files += config/mpix_dma.pc.in
libmpix_dma_la_SOURCES = \
	ompi_coll_dma/gpu/base.c \
	ompi_coll_dma/gpu/base.h \
	mpix/advised.c \
	mpix/agent.c \
	mpix/agent.h \
	mpix/armed.c \
	mpix/in_stream.c \
	mpix/in_stream.h \
	mpix/memory.c \
	mpix/memory.h \
	mpix/parted.c \
	mpix/parted.h \
	mpix/parted_calls.c \
	mpix/parted_init.c \
	mpix/parted_list.c \
	mpix/parted_round.c \
	mpix/queue.c \
	mpix/queue.h \
	mpix/queue_work.c \
	mpix/runtime.c \
	mpix/runtime.h \
	mpix/stream.c \
	mpix/stream.h
libmpix_dma_la_CPPFLAGS = $(MPI_CPPFLAGS) -I$(top_srcdir)/include -I$(top_srcdir)/ompi_coll_dma
libmpix_dma_la_CFLAGS = $(AM_CFLAGS) -pthread
libmpix_dma_la_LDFLAGS = $(AM_LDFLAGS) -version-info 0:0:0 -no-undefined -export-symbols-regex '^MPIX_'
libmpix_dma_la_LIBADD = $(OMPI_PROGRAM_LIBS) -ldl -lpthread
