# Tests of configure, make install and make dist.
extra_files += \
	test/build/aarch64.sh \
	test/build/compilers.sh \
	test/build/configure.sh \
	test/build/dist.sh \
	test/build/fit.sh \
	test/build/install.sh \
	test/build/packages.sh \
	test/build/probes.sh
