# Tests of device memory without a GPU.
unit_tests += \
	test/unit/test_device \
	test/unit/test_device_cost \
	test/unit/test_device_errors \
	test/unit/test_device_freed \
	test/unit/test_device_holes \
	test/unit/test_device_persistent \
	test/unit/test_device_ipc \
	test/unit/test_relay \
	test/unit/test_sdma_arm \
	test/unit/test_sdma_bound \
	test/unit/test_sdma_engine \
	test/unit/test_sdma_lower \
	test/unit/test_sdma_queue
unit_helpers += \
	test/unit/libengine.c \
	test/unit/libengine.h \
	test/unit/libengine_call.c \
	test/unit/libengine_call.h \
	test/unit/libsdma_stage.c \
	test/unit/libsdma_stage.h \
	test/unit/libthunk.c \
	test/unit/libthunk.h
# counts the allocations of a call
test_unit_test_device_cost_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc,--wrap=calloc
# counts them, and their bytes
test_unit_test_relay_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc,--wrap=calloc,--wrap=free
# has none left
test_unit_test_device_ipc_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc
# is interrupted, and has little
test_unit_test_node_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=posix_fallocate
# finds libthunk's
test_unit_test_sdma_arm_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=dma_thunk_find
test_unit_test_sdma_bound_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=dma_thunk_find
test_unit_test_sdma_engine_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=dma_thunk_find
test_unit_test_sdma_lower_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=dma_thunk_find
test_unit_test_sdma_queue_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=dma_thunk_find
