# Tests of device memory without a GPU.
unit_tests += \
	test/unit/test_device \
	test/unit/test_device_cost \
	test/unit/test_device_errors \
	test/unit/test_device_persistent
unit_helpers += \
	test/unit/libengine.c \
	test/unit/libengine.h \
	test/unit/libengine_call.c \
	test/unit/libengine_call.h
# counts the allocations of a call
test_unit_test_device_cost_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc,--wrap=calloc
