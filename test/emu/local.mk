# The emulated node. Each part has a list of its own, because programs use different parts.

# Execution of SDMA packets: uses neither ROCm nor the rest of the node.
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

# The driver, which checks what a process may do: uses neither ROCm nor the engines.
emu_driver_sources = \
	test/emu/clock.h \
	test/emu/config.c \
	test/emu/config.h \
	test/emu/event.c \
	test/emu/event.h \
	test/emu/evict.c \
	test/emu/evict.h \
	test/emu/exports.h \
	test/emu/file.c \
	test/emu/file.h \
	test/emu/gem.c \
	test/emu/gem.h \
	test/emu/hide.c \
	test/emu/hide.h \
	test/emu/kfd.c \
	test/emu/kfd.h \
	test/emu/kfd_event.c \
	test/emu/kfd_memory.c \
	test/emu/kfd_queue.c \
	test/emu/kfd_svm.c \
	test/emu/persona.c \
	test/emu/persona.h \
	test/emu/process.c \
	test/emu/process.h \
	test/emu/queue.h \
	test/emu/report.c \
	test/emu/report.h \
	test/emu/vm.c \
	test/emu/vm.h
emu_render_sources = \
	test/emu/render.c \
	test/emu/render.h
unit_helpers += $(emu_driver_sources) $(emu_render_sources)

# The node below both doors: processes, memory, events, queues, the kernel's calls and the thread of the engines.
emu_node_sources = $(emu_driver_sources) \
	test/emu/aql.c \
	test/emu/aql.h \
	test/emu/fault.c \
	test/emu/fault.h \
	test/emu/kernels.c \
	test/emu/kernels.h \
	test/emu/machine.c \
	test/emu/machine.h \
	test/emu/queue.c \
	test/emu/slots.c \
	test/emu/slots.h \
	test/emu/stats.c
# The thunk's door.
emu_thunk_sources = \
	test/emu/api.c \
	test/emu/api.h \
	test/emu/ipc.c \
	test/emu/memory.c \
	test/emu/memory.h \
	test/emu/thunk.h \
	test/emu/thunk_event.c \
	test/emu/thunk_queue.c \
	test/emu/topology.c \
	test/emu/unsupported.c
# The kernel's door.
emu_kernel_sources = $(emu_render_sources) test/emu/node_shim.c
# Programs preload these libraries, so libtool's rules are not used.
emu_plain_sources = test/emu/comgr_cache.c test/emu/kfd_shim.c test/emu/rocr_queues.c test/emu/wait_shim.c
emu_maps = test/emu/libhsakmt.map test/emu/rocr_queues.map
emu_raw_sources = test/emu/gather.c test/emu/latte.c test/emu/raw.c test/emu/raw.h test/emu/rules.c

extra_files += $(emu_maps) $(emu_plain_sources) $(emu_raw_sources) $(emu_thunk_sources) test/emu/doors.sh test/emu/emu.sh \
	test/emu/foreign.sh test/emu/queues.sh test/emu/README.md

if HAVE_EMU
EXTRA_LTLIBRARIES = test/emu/libemu.la test/emu/libemu_kernel.la
test_emu_libemu_la_SOURCES = $(emu_node_sources) $(emu_sdma_sources)
test_emu_libemu_kernel_la_SOURCES = $(emu_kernel_sources)
emu_comgr = test/emu/comgr/$(EMU_COMGR_NAME)
emu_built = test/emu/libnode.so $(emu_comgr)
emu_clean = test/emu/libnode.so $(emu_comgr) test/emu/comgr/libreal.so test/emu/comgr/versions.map
emu_test_programs = test/emu/addresses test/emu/collective test/emu/hip
mpi_programs += test/emu/emu_tree $(emu_test_programs)
test_emu_emu_tree_SOURCES = test/emu/tree.c test/emu/hide.c test/emu/hide.h test/emu/persona.c test/emu/persona.h
test_emu_emu_tree_CPPFLAGS = $(DMA_DEFINES)
test_emu_emu_tree_LDADD =
test_emu_collective_CPPFLAGS = $(DMA_DEFINES) $(OMPI_PROGRAM_CPPFLAGS)
test_emu_collective_LDADD = $(OMPI_PROGRAM_LIBS) -lamdhip64
test_emu_hip_SOURCES = test/emu/hip.c
test_emu_hip_CPPFLAGS = $(DMA_DEFINES)
test_emu_hip_LDADD = -lamdhip64
test_emu_addresses_SOURCES = test/emu/addresses.c
test_emu_addresses_CPPFLAGS = $(DMA_DEFINES)
test_emu_addresses_LDADD = -lhsa-runtime64

emu_so = $(AM_V_CCLD)mkdir -p $(@D) && $(CC) $(DEFS) $(AM_CFLAGS) $(CFLAGS) -fPIC -shared -o $@ $(AM_LDFLAGS) $(LDFLAGS)
emu_whole = -Wl,--whole-archive test/emu/.libs/libemu.a
test/emu/libnode.so: test/emu/libemu.la test/emu/libemu_kernel.la test/emu/wait_shim.c
	$(emu_so) $(srcdir)/test/emu/wait_shim.c $(emu_whole) test/emu/.libs/libemu_kernel.a -Wl,--no-whole-archive -Wl,-z,defs \
	-pthread -ldl
# An empty library whose soname is the path of the real one. A library that is linked with it makes the loader load that path.
test/emu/comgr/libreal.so: Makefile
	$(emu_so) -x c /dev/null -Wl,-soname,$(EMU_COMGR)
# Has the symbol versions of the real library, which programs that are linked with that one require.
test/emu/comgr/versions.map: Makefile
	$(AM_V_GEN)mkdir -p $(@D) && { \
	  echo "$$(readelf --dyn-syms -W $(EMU_COMGR) | sed -n 's/.* amd_comgr_do_action@@//p') { global: amd_comgr_do_action; local: *; };"; \
	  readelf -V $(EMU_COMGR) | awk '/Rev: 1 +Flags: none/ && $$NF != "amd_comgr_1.8" { print $$NF " { };" }'; } >$@
$(emu_comgr): test/emu/comgr_cache.c test/emu/comgr/libreal.so test/emu/comgr/versions.map
	$(emu_so) $< -fvisibility=default -Wl,-soname,libdma_comgr_cache.so -Wl,--version-script=test/emu/comgr/versions.map \
	-Wl,--no-as-needed test/emu/comgr/libreal.so -ldl && mkdir -p $(@D)/cache

# The library that replaces the thunk of ROCm 5.2, and programs that use the thunk directly.
if HAVE_EMU_THUNK
emu_thunk = test/emu/thunk/libhsakmt.so.1
emu_built += $(emu_thunk) test/emu/libkfd_shim.so test/emu/rocr/libhsa-runtime64.so.1
emu_clean += $(emu_thunk) test/emu/libkfd_shim.so test/emu/rocr/libhsa-runtime64.so.1 test/emu/rocr/libreal.so
emu_test_programs += test/emu/gather test/emu/latte test/emu/rules
EXTRA_LTLIBRARIES += test/emu/libemu_thunk.la
test_emu_libemu_thunk_la_SOURCES = $(emu_thunk_sources)
test_emu_hip_SOURCES += test/emu/raw.c test/emu/raw.h
test_emu_hip_CPPFLAGS += -DDMA_HAVE_THUNK
test_emu_hip_LDADD += -lhsakmt -ldl
test_emu_gather_SOURCES = test/emu/gather.c test/emu/raw.c test/emu/raw.h
test_emu_gather_CPPFLAGS = $(DMA_DEFINES)
test_emu_gather_LDADD = -lhsakmt -ldl
test_emu_latte_SOURCES = test/emu/latte.c test/emu/raw.c test/emu/raw.h
test_emu_latte_CPPFLAGS = $(DMA_DEFINES)
test_emu_latte_LDADD = -lhsakmt -ldl
test_emu_rules_SOURCES = test/emu/rules.c test/emu/raw.c test/emu/raw.h
test_emu_rules_CPPFLAGS = $(DMA_DEFINES)
test_emu_rules_LDADD = -lhsakmt -ldl

test/emu/thunk/libhsakmt.so.1: test/emu/libemu.la test/emu/libemu_thunk.la $(srcdir)/test/emu/libhsakmt.map
	$(emu_so) $(emu_whole) test/emu/.libs/libemu_thunk.a -Wl,--no-whole-archive -Wl,-z,defs \
	-Wl,-soname,libhsakmt.so.1 -pthread -Wl,--version-script=$(srcdir)/test/emu/libhsakmt.map
test/emu/libkfd_shim.so: test/emu/kfd_shim.c test/emu/wait_shim.c
	$(emu_so) $(srcdir)/test/emu/kfd_shim.c $(srcdir)/test/emu/wait_shim.c -ldl
test/emu/rocr/libreal.so: Makefile
	$(emu_so) -x c /dev/null -Wl,-soname,$(EMU_ROCR)
test/emu/rocr/libhsa-runtime64.so.1: test/emu/rocr_queues.c test/emu/rocr_queues.map test/emu/rocr/libreal.so $(emu_thunk)
	$(emu_so) $< -I$(srcdir)/test/emu -Wl,-soname,libdma_rocr_queues.so -Wl,--version-script=$(srcdir)/test/emu/rocr_queues.map \
	-Wl,--no-as-needed test/emu/rocr/libreal.so $(emu_thunk) -ldl -pthread
endif

# The files that ./with-build --gpus needs.
emu_node_parts = $(emu_built) test/emu/emu_tree$(EXEEXT)
endif
