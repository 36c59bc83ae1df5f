# Tests of collectives on device memory, on the emulated node.
mpi_scripts += \
	test/device/common.sh \
	test/device/sweep.sh
