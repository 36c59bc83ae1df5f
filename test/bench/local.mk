# Comparisons of runs, and the tests of the programs that compare.
extra_files += \
	test/bench/bench.sh \
	test/bench/beside_osu \
	test/bench/between \
	test/bench/compare \
	test/bench/fake_load.c \
	test/bench/fake_nccl.c \
	test/bench/fake_smi.c \
	test/bench/order_shim.c \
	test/bench/osu_page.sh \
	test/bench/paired.py \
	test/bench/rocm_shim.c
