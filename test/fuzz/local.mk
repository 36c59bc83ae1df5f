# Fuzzing: programs in which readers of data from elsewhere get any bytes. fuzz.sh runs them. They are built on demand.
fuzz_programs = \
	test/fuzz/fuzz_param \
	test/fuzz/fuzz_profile \
	test/fuzz/fuzz_record \
	test/fuzz/fuzz_topology \
	test/fuzz/fuzz_trace
if HAVE_UCX
fuzz_programs += test/fuzz/fuzz_ucx
endif
fuzz_common = test/fuzz/dir.c test/fuzz/driver.c test/fuzz/fuzz.h
test_fuzz_fuzz_param_SOURCES = test/fuzz/fuzz_param.c $(fuzz_common)
test_fuzz_fuzz_param_LDADD = libdma_core.la
test_fuzz_fuzz_profile_SOURCES = test/fuzz/fuzz_profile.c $(fuzz_common)
test_fuzz_fuzz_profile_LDADD = libdma_core.la
test_fuzz_fuzz_record_SOURCES = test/fuzz/fuzz_record.c $(fuzz_common)
test_fuzz_fuzz_record_LDADD = libdma_core.la
test_fuzz_fuzz_topology_SOURCES = test/fuzz/fuzz_topology.c $(fuzz_common)
test_fuzz_fuzz_topology_LDADD = libdma_core.la
test_fuzz_fuzz_trace_SOURCES = test/fuzz/fuzz_trace.c $(fuzz_common) $(trace_tool_sources)
test_fuzz_fuzz_trace_LDADD = libdma_core.la -lm
test_fuzz_fuzz_ucx_SOURCES = test/fuzz/fuzz_ucx.c test/fuzz/stub_ucx.c test/fuzz/stub_ucx.h $(fuzz_common)
test_fuzz_fuzz_ucx_LDADD = libdma_core.la

fuzz: $(fuzz_programs)
.PHONY: fuzz
extra_files += \
	test/fuzz/corpus \
	test/fuzz/fuzz.sh

# For fuzz.sh: the objects of a program, in which libFuzzer's main replaces the driver's.
print-fuzz-objects:
	@echo param $(test_fuzz_fuzz_param_OBJECTS)
	@echo profile $(test_fuzz_fuzz_profile_OBJECTS)
	@echo record $(test_fuzz_fuzz_record_OBJECTS)
	@echo topology $(test_fuzz_fuzz_topology_OBJECTS)
	@echo trace $(test_fuzz_fuzz_trace_OBJECTS)
	@echo ucx $(test_fuzz_fuzz_ucx_OBJECTS)
.PHONY: print-fuzz-objects
