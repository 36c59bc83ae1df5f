# The emulated node. Each part is a list of its own, because its programs take different ones.

# Execution of SDMA packets: knows neither ROCm nor the rest of the node.
emu_sdma_sources = \
	test/emu/sdma.h

unit_helpers += $(emu_sdma_sources)
