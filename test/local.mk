# What several test folders share, and data.
extra_files += \
	test/data \
	test/lib.sh \
	test/mutants \
	test/mutants.sh \
	test/style.sh \
	test/topologies
