# The program that fits the cost model of DMA engines; its tests need the sources without main().
fit_sources = \
	tools/fit_model.c \
	tools/fit_model.h \
	tools/fit_report.c \
	tools/fit_search.c
plain_programs += tools/fit_gpu
tools_fit_gpu_SOURCES = tools/fit_gpu.c $(fit_sources)
tools_fit_gpu_LDADD = libdma_core.la -lm

# The program that predicts collectives of clusters.
plain_programs += tools/simulate_nodes
tools_simulate_nodes_LDADD = libdma_core.la

# Of ./check, ./demo and with-build.
extra_files += tools/build.sh tools/compile_commands.sh tools/series.sh
