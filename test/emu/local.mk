# The emulated node. Each part is a list of its own, because its programs take different ones.

# Execution of SDMA packets: knows neither ROCm nor the rest of the node.
emu_sdma_sources = \
	test/emu/lose.c \
	test/emu/lose.h \
	test/emu/sdma.h \
	test/emu/sdma_engine.c \
	test/emu/sdma_exec.c \
	test/emu/sdma_internal.h \
	test/emu/sdma_lose.c \
	test/emu/sdma_op.c \
	test/emu/sdma_packet.c \
	test/emu/sdma_packet.h \
	test/emu/sdma_queue.c \
	test/emu/sdma_race.c \
	test/emu/sdma_region.c \
	test/emu/sdma_text.c

unit_helpers += $(emu_sdma_sources) \
	test/emu/sdma_bench.c \
	test/emu/sdma_bench.h

# The node: the thunk's calls, memory, events, topology and the thread of the engines.
emu_node_sources = \
	test/emu/api.c \
	test/emu/api.h \
	test/emu/aql.c \
	test/emu/aql.h \
	test/emu/clock.h \
	test/emu/config.c \
	test/emu/config.h \
	test/emu/event.c \
	test/emu/event.h \
	test/emu/fault.c \
	test/emu/fault.h \
	test/emu/hide.c \
	test/emu/hide.h \
	test/emu/ipc.c \
	test/emu/kernels.c \
	test/emu/kernels.h \
	test/emu/kfd.c \
	test/emu/machine.c \
	test/emu/machine.h \
	test/emu/memory.c \
	test/emu/memory.h \
	test/emu/persona.c \
	test/emu/persona.h \
	test/emu/queue.c \
	test/emu/queue.h \
	test/emu/report.c \
	test/emu/report.h \
	test/emu/slots.c \
	test/emu/slots.h \
	test/emu/stats.c \
	test/emu/thunk.h \
	test/emu/topology.c \
	test/emu/unsupported.c \
	test/emu/vm.c \
	test/emu/vm.h
# Loaded into programs as they are, and so not by libtool's rules.
emu_plain_sources = test/emu/comgr_cache.c test/emu/kfd_shim.c test/emu/rocr_queues.c test/emu/wait_shim.c
emu_plain_libraries = test/emu/comgr/libamd_comgr.so.2 test/emu/libkfd_shim.so test/emu/rocr/libhsa-runtime64.so.1
emu_maps = test/emu/libhsakmt.map test/emu/rocr_queues.map
# The library that ROCm 5.2 has.
emu_thunk = test/emu/thunk/libhsakmt.so.1
emu_test_programs = test/emu/collective test/emu/gather test/emu/hip test/emu/rules

extra_files += $(emu_maps) $(emu_plain_sources) test/emu/emu.sh test/emu/queues.sh test/emu/README.md

if HAVE_EMU
EXTRA_LTLIBRARIES = test/emu/libemu.la
test_emu_libemu_la_SOURCES = $(emu_node_sources) $(emu_sdma_sources)
mpi_programs += test/emu/emu_tree $(emu_test_programs)
test_emu_emu_tree_SOURCES = test/emu/tree.c test/emu/hide.c test/emu/hide.h test/emu/persona.c test/emu/persona.h
test_emu_emu_tree_CPPFLAGS = $(DMA_DEFINES)
test_emu_emu_tree_LDADD =
test_emu_collective_CPPFLAGS = $(DMA_DEFINES) $(OMPI_PROGRAM_CPPFLAGS)
test_emu_collective_LDADD = $(OMPI_PROGRAM_LIBS) -lamdhip64
test_emu_gather_SOURCES = test/emu/gather.c test/emu/raw.c test/emu/raw.h
test_emu_gather_CPPFLAGS = $(DMA_DEFINES)
test_emu_gather_LDADD = -lhsakmt -ldl
test_emu_hip_SOURCES = test/emu/hip.c test/emu/raw.c test/emu/raw.h
test_emu_hip_CPPFLAGS = $(DMA_DEFINES)
test_emu_hip_LDADD = -lamdhip64 -lhsakmt -ldl
test_emu_rules_SOURCES = test/emu/rules.c test/emu/raw.c test/emu/raw.h
test_emu_rules_CPPFLAGS = $(DMA_DEFINES)
test_emu_rules_LDADD = -lhsakmt -ldl

emu_so = $(AM_V_CCLD)mkdir -p $(@D) && $(CC) $(DEFS) $(AM_CFLAGS) $(CFLAGS) -fPIC -shared -o $@ $(AM_LDFLAGS) $(LDFLAGS)
test/emu/thunk/libhsakmt.so.1: test/emu/libemu.la $(srcdir)/test/emu/libhsakmt.map
	$(emu_so) -Wl,--whole-archive test/emu/.libs/libemu.a -Wl,--no-whole-archive -Wl,-z,defs \
	-Wl,-soname,libhsakmt.so.1 -pthread -Wl,--version-script=$(srcdir)/test/emu/libhsakmt.map
test/emu/libkfd_shim.so: test/emu/kfd_shim.c test/emu/wait_shim.c
	$(emu_so) $(srcdir)/test/emu/kfd_shim.c $(srcdir)/test/emu/wait_shim.c -ldl
# An empty library whose name is the real one's path: what is linked with it asks the loader for that path.
test/emu/comgr/libreal.so: Makefile
	$(emu_so) -x c /dev/null -Wl,-soname,$(EMU_COMGR)
test/emu/comgr/libamd_comgr.so.2: test/emu/comgr_cache.c test/emu/comgr/libreal.so
	$(emu_so) $< -fvisibility=default -Wl,-soname,libdma_comgr_cache.so -Wl,--no-as-needed test/emu/comgr/libreal.so -ldl && \
	mkdir -p $(@D)/cache
test/emu/rocr/libreal.so: Makefile
	$(emu_so) -x c /dev/null -Wl,-soname,$(EMU_ROCR)
test/emu/rocr/libhsa-runtime64.so.1: test/emu/rocr_queues.c test/emu/rocr_queues.map test/emu/rocr/libreal.so $(emu_thunk)
	$(emu_so) $< -I$(srcdir)/test/emu -Wl,-soname,libdma_rocr_queues.so -Wl,--version-script=$(srcdir)/test/emu/rocr_queues.map \
	-Wl,--no-as-needed test/emu/rocr/libreal.so $(emu_thunk) -ldl -pthread

emu_built = $(emu_thunk) $(emu_plain_libraries)
# What ./with-build --gpus needs.
emu_node_parts = $(emu_built) test/emu/emu_tree$(EXEEXT)
emu_clean = $(emu_built) test/emu/comgr/libreal.so test/emu/rocr/libreal.so
endif
