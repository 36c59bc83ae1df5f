# What counting costs on the path of a small call.
plain_programs += test/cost/hot_path test/cost/hot_path_uncounted
test_cost_hot_path_LDADD = libdma_core.la -lpthread
# The sources of that path, in which nothing is counted.
test_cost_hot_path_uncounted_SOURCES = test/cost/hot_path.c \
	ompi_coll_dma/core/comm.c \
	ompi_coll_dma/core/host.c \
	ompi_coll_dma/core/task.c \
	ompi_coll_dma/engine/host/host.c
test_cost_hot_path_uncounted_CPPFLAGS = $(AM_CPPFLAGS) -DDMA_COUNT_NOTHING
test_cost_hot_path_uncounted_LDADD = libdma_core.la -lpthread
extra_files += test/cost/cost.sh
