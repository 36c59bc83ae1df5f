# Models of the shared-memory protocol: model.sh compiles them, each with the product's sources in it.
extra_files += \
	test/model/bell.c \
	test/model/leave.c \
	test/model/lines.c \
	test/model/memory.h \
	test/model/model.h \
	test/model/model.sh \
	test/model/orders.txt \
	test/model/plans.c \
	test/model/poison.c \
	test/model/print_plans.c \
	test/model/README.md \
	test/model/report.c \
	test/model/ring.c \
	test/model/run.h \
	test/model/sizes.h \
	test/model/words.h
