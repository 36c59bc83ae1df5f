# The program that fits the cost model of DMA engines. Its tests need the sources without main().
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

# The program that tries on a node what the engine sdma does there.
bin_PROGRAMS += tools/accept/coll_dma_accept
dist_man_MANS += tools/accept/coll_dma_accept.1
tools_accept_coll_dma_accept_SOURCES = \
	tools/accept/accept.c \
	tools/accept/accept.h \
	tools/accept/check.c \
	tools/accept/child.c \
	tools/accept/gpu.c \
	tools/accept/job.c \
	tools/accept/kernel.c \
	tools/accept/save.c \
	tools/accept/stage1.c \
	tools/accept/stage2.c
tools_accept_coll_dma_accept_LDADD = libdma_core.la -ldl -lpthread
# The program that its jobs run.
pkglibexec_PROGRAMS += tools/accept/coll_dma_accept_worker
tools_accept_coll_dma_accept_worker_SOURCES = tools/accept/worker.c
tools_accept_coll_dma_accept_worker_CPPFLAGS = $(MPI_CPPFLAGS) -I$(top_srcdir)/ompi_coll_dma
tools_accept_coll_dma_accept_worker_LDADD = $(OMPI_PROGRAM_LIBS) -ldl

# The program that describes a node. Its tests need the parts that work without Open MPI and GPUs.
info_sources = \
	tools/info/info.h \
	tools/info/kinds.c \
	tools/info/options.c \
	tools/info/out.c \
	tools/info/out.h \
	tools/info/predict.c
bin_PROGRAMS += tools/info/coll_dma_info
dist_man_MANS += tools/info/coll_dma_info.1
extra_files += tools/info/info.schema.json
tools_info_coll_dma_info_SOURCES = \
	tools/gpu_start.c \
	tools/gpu_start.h \
	tools/info/gpu.c \
	tools/info/host.c \
	tools/info/info.c \
	tools/info/job.c \
	tools/info/missing.c \
	tools/info/net.c \
	tools/info/params.c \
	tools/info/report.c \
	tools/info/report_gpu.c \
	tools/info/runtime.c \
	tools/state/read.c \
	tools/state/state.h \
	$(info_sources)
tools_info_coll_dma_info_CPPFLAGS = $(AM_CPPFLAGS) $(OMPI_PROGRAM_CPPFLAGS) -DDMA_PKGDATADIR='"$(pkgdatadir)"' \
	-DDMA_PATH_KEPT='"$(OMPI_PATH_KEPT)"'
tools_info_coll_dma_info_LDADD = libdma_core.la $(OMPI_PROGRAM_LIBS) -ldl -lpthread

# The program that says which ranks of a job wait for which.
bin_PROGRAMS += tools/state/coll_dma_state
dist_man_MANS += tools/state/coll_dma_state.1
extra_files += tools/state/state.schema.json
tools_state_coll_dma_state_SOURCES = \
	tools/state/find.c \
	tools/state/json.c \
	tools/state/read.c \
	tools/state/say.c \
	tools/state/state.c \
	tools/state/state.h
tools_state_coll_dma_state_LDADD = libdma_core.la -ldl -lpthread

# The program that says what the calls of a job did, and when.
bin_PROGRAMS += tools/trace/coll_dma_trace
dist_man_MANS += tools/trace/coll_dma_trace.1
extra_files += tools/trace/trace.schema.json
tools_trace_coll_dma_trace_SOURCES = tools/trace/main.c $(trace_tool_sources)
trace_tool_sources = \
	tools/trace/calls.c \
	tools/trace/chrome.c \
	tools/trace/engine.c \
	tools/trace/messages.c \
	tools/trace/phases.c \
	tools/trace/plot.c \
	tools/trace/ranks.c \
	tools/trace/read.c \
	tools/trace/table.c \
	tools/trace/trace.h
tools_trace_coll_dma_trace_LDADD = -lm

# The benchmark.
bin_PROGRAMS += tools/bench/coll_dma_bench
dist_man_MANS += tools/bench/coll_dma_bench.1
tools_bench_coll_dma_bench_SOURCES = \
	tools/bench/bare.c \
	tools/bench/bench.c \
	tools/bench/bench.h \
	tools/bench/data.c \
	tools/bench/device.c \
	tools/bench/device.h \
	tools/bench/energy.c \
	tools/bench/energy.h \
	tools/bench/energy_gpu.c \
	tools/bench/files.c \
	tools/gpu_start.c \
	tools/gpu_start.h \
	tools/bench/load.h \
	tools/bench/measure.c \
	tools/bench/nccl.c \
	tools/bench/nccl_library.c \
	tools/bench/nccl_library.h \
	tools/bench/operations.c \
	tools/bench/options.c \
	tools/bench/passes.c \
	tools/bench/queue.c \
	tools/bench/results.c \
	tools/bench/sides.c \
	tools/bench/table.c
tools_bench_coll_dma_bench_CPPFLAGS = $(AM_CPPFLAGS) $(OMPI_PROGRAM_CPPFLAGS) -DDMA_LIBDIR='"$(libdir)"'
tools_bench_coll_dma_bench_LDADD = libdma_core.la $(OMPI_PROGRAM_LIBS) -ldl -lm

# Read by ./check, ./demo and with-build.
extra_files += tools/aarch64.sh tools/build.sh tools/compile_commands.sh tools/packages.sh tools/phases_figure.sh tools/series.sh tools/summarize.py

# The program that writes the table of docs/user/parameters.md.
plain_programs += tools/params_doc
tools_params_doc_SOURCES = tools/params_doc.c tools/table_doc.c tools/table_doc.h
tools_params_doc_LDADD = libdma_core.la
params-doc: tools/params_doc$(EXEEXT)
	tools/params_doc $(srcdir)/docs/user/parameters.md >docs.tmp && mv docs.tmp $(srcdir)/docs/user/parameters.md

# The program that writes the table of docs/user/counters.md.
plain_programs += tools/counters_doc
tools_counters_doc_SOURCES = tools/counters_doc.c tools/table_doc.c tools/table_doc.h
tools_counters_doc_LDADD = libdma_core.la
counters-doc: tools/counters_doc$(EXEEXT)
	tools/counters_doc $(srcdir)/docs/user/counters.md >docs.tmp && mv docs.tmp $(srcdir)/docs/user/counters.md
.PHONY: params-doc counters-doc
