# Files that several test folders share, and data.
extra_files += \
	test/chrome_trace.py \
	test/data \
	test/json_ask.py \
	test/json_schema.py \
	test/lib.sh \
	test/mutate_trace.py \
	test/reasons.sh \
	test/style.sh \
	test/symbols-allowed.txt \
	test/symbols.sh \
	test/topologies
