# The emulated node. Each part is a list of its own, because its programs take different ones.

# Execution of SDMA packets: knows neither ROCm nor the rest of the node.
emu_sdma_sources = \
	test/emu/sdma.h \
	test/emu/sdma_engine.c \
	test/emu/sdma_exec.c \
	test/emu/sdma_internal.h \
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
unit_tests += \
	test/unit/test_emu_sdma
