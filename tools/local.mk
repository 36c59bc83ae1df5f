# The program that fits the cost model of DMA engines, and the tests of the model.

fit_sources = \
	tools/fit_model.c \
	tools/fit_model.h \
	tools/fit_report.c \
	tools/fit_search.c

EXTRA_PROGRAMS += tools/fit_gpu
tools_fit_gpu_SOURCES = tools/fit_gpu.c $(fit_sources)
tools_fit_gpu_LDADD = libdma_core.la -lm
programs: tools/fit_gpu$(EXEEXT)

unit_tests += test/unit/test_gpu_cost test/unit/test_gpu_fit
if HAVE_CHECK
test_unit_test_gpu_fit_SOURCES = test/unit/test_gpu_fit.c $(fit_sources)
test_unit_test_gpu_fit_CPPFLAGS = $(AM_CPPFLAGS) -DSOURCE_DIR='"$(abs_top_srcdir)"'
test_unit_test_gpu_fit_LDADD = $(LDADD) -lm
endif

EXTRA_DIST += \
	docs/cost-model.md \
	docs/scaling.md \
	profiles/bed-1gbit.txt \
	profiles/mi300x.txt \
	test/build/fit.sh \
	test/data/mi300x_phases.csv \
	test/data/mi300x_speedups.csv

# The program that predicts collectives of clusters.
EXTRA_PROGRAMS += tools/simulate_nodes
tools_simulate_nodes_SOURCES = tools/simulate_nodes.c
tools_simulate_nodes_LDADD = libdma_core.la
programs: tools/simulate_nodes$(EXEEXT)
