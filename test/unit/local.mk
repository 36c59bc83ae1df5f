# Tests of device memory without a GPU.
unit_tests += \
	test/unit/test_device
unit_helpers += \
	test/unit/libengine.c \
	test/unit/libengine.h \
	test/unit/libengine_call.c \
	test/unit/libengine_call.h
