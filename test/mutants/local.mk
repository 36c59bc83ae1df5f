# Not built by make: run.sh compiles them.
extra_files += \
	test/mutants/README.md \
	test/mutants/cluster.txt \
	test/mutants/core.txt \
	test/mutants/device.txt \
	test/mutants/emu.txt \
	test/mutants/engine.txt \
	test/mutants/gpu.txt \
	test/mutants/node.txt \
	test/mutants/plan.txt \
	test/mutants/sdma.txt \
	test/mutants/ucx_tl.txt \
	test/mutants/generate.c \
	test/mutants/mutate.c \
	test/mutants/mutate.h \
	test/mutants/run.sh \
	test/mutants/source.c \
	test/mutants/source.h
