# Unit tests: a new one is one line here. Each is one program, linked with the core and with the helpers.
unit_tests += \
	test/unit/test_absent \
	test/unit/test_channels \
	test/unit/test_choose \
	test/unit/test_cluster \
	test/unit/test_cluster_comm \
	test/unit/test_cluster_exchange \
	test/unit/test_cluster_hosts \
	test/unit/test_cluster_kept \
	test/unit/test_cluster_told \
	test/unit/test_copy \
	test/unit/test_counters \
	test/unit/test_decide \
	test/unit/test_device \
	test/unit/test_device_cost \
	test/unit/test_device_epochs \
	test/unit/test_device_errors \
	test/unit/test_device_freed \
	test/unit/test_device_holes \
	test/unit/test_device_init \
	test/unit/test_device_ipc \
	test/unit/test_device_links \
	test/unit/test_device_locks \
	test/unit/test_device_mapped \
	test/unit/test_device_mixed \
	test/unit/test_device_persistent \
	test/unit/test_device_pieces \
	test/unit/test_device_reset \
	test/unit/test_device_rounds \
	test/unit/test_device_scratch \
	test/unit/test_device_shape \
	test/unit/test_device_slots \
	test/unit/test_device_staged \
	test/unit/test_device_submitter \
	test/unit/test_device_sync \
	test/unit/test_device_typed \
	test/unit/test_emu_gem \
	test/unit/test_emu_kfd \
	test/unit/test_emu_sdma \
	test/unit/test_emu_sdma_lax \
	test/unit/test_emu_sdma_order \
	test/unit/test_emu_sdma_random \
	test/unit/test_emu_sdma_rules \
	test/unit/test_errors \
	test/unit/test_failures \
	test/unit/test_failures_threads \
	test/unit/test_first \
	test/unit/test_forms \
	test/unit/test_giver \
	test/unit/test_giver_waits \
	test/unit/test_gpu_adopt \
	test/unit/test_gpu_cost \
	test/unit/test_gpu_fake \
	test/unit/test_gpu_fit \
	test/unit/test_gpu_guard \
	test/unit/test_gpu_mapped \
	test/unit/test_gpu_memory \
	test/unit/test_gpu_reset \
	test/unit/test_gpu_runtime \
	test/unit/test_in_stream \
	test/unit/test_in_stream_turns \
	test/unit/test_info \
	test/unit/test_interp \
	test/unit/test_lease \
	test/unit/test_lease_cases \
	test/unit/test_measure \
	test/unit/test_no_memory \
	test/unit/test_node \
	test/unit/test_params \
	test/unit/test_path \
	test/unit/test_pause \
	test/unit/test_plain \
	test/unit/test_plans \
	test/unit/test_reach \
	test/unit/test_reasons \
	test/unit/test_registered \
	test/unit/test_reach_plans \
	test/unit/test_relay \
	test/unit/test_sdma_arm \
	test/unit/test_sdma_bound \
	test/unit/test_sdma_engine \
	test/unit/test_sdma_fault \
	test/unit/test_sdma_kfd \
	test/unit/test_sdma_lower \
	test/unit/test_sdma_map \
	test/unit/test_sdma_packet \
	test/unit/test_sdma_parts \
	test/unit/test_sdma_provider \
	test/unit/test_sdma_queue \
	test/unit/test_sdma_record \
	test/unit/test_sdma_rect \
	test/unit/test_sdma_ring \
	test/unit/test_sdma_rocr \
	test/unit/test_sdma_shaped \
	test/unit/test_sdma_topology \
	test/unit/test_sdma_watch \
	test/unit/test_shape \
	test/unit/test_self \
	test/unit/test_state \
	test/unit/test_stream \
	test/unit/test_stream_own \
	test/unit/test_stream_stamps \
	test/unit/test_threads \
	test/unit/test_trace
if HAVE_UCX
unit_tests += \
	test/unit/test_ucx_tl \
	test/unit/test_ucx_tl_faults \
	test/unit/test_ucx_tl_goodbye \
	test/unit/test_ucx_tl_match \
	test/unit/test_ucx_tl_open \
	test/unit/test_ucx_tl_start
endif
extra_files += \
	test/unit/kernel/drm/drm.h \
	test/unit/cost.sh \
	test/unit/run.sh \
	test/unit/test_ucx_tl.c \
	test/unit/test_ucx_tl_faults.c \
	test/unit/test_ucx_tl_goodbye.c \
	test/unit/test_ucx_tl_match.c \
	test/unit/test_ucx_tl_open.c \
	test/unit/test_ucx_tl_start.c

# What several of them use.
unit_helpers += \
	test/unit/libcluster.c \
	test/unit/libcluster.h \
	test/unit/libcount.c \
	test/unit/libdata.c \
	test/unit/libengine.c \
	test/unit/libengine.h \
	test/unit/libengine_call.c \
	test/unit/libengine_call.h \
	test/unit/libgpu_fake.c \
	test/unit/libgpu_fake.h \
	test/unit/libgpu_fake_account.c \
	test/unit/libgpu_fake_event.c \
	test/unit/libgpu_fake_internal.h \
	test/unit/libgpu_fake_late.c \
	test/unit/libgpu_fake_mapped.c \
	test/unit/libgpu_fake_stream.c \
	test/unit/libgpu_fake_watch.c \
	test/unit/libdriver.c \
	test/unit/libdriver.h \
	test/unit/libgiver.c \
	test/unit/libgiver.h \
	test/unit/libinterp.c \
	test/unit/libinterp.h \
	test/unit/libinterp_hand.c \
	test/unit/libinterp_hand.h \
	test/unit/libinterp_machine.h \
	test/unit/libinterp_model.c \
	test/unit/libinterp_model.h \
	test/unit/libinterp_print.c \
	test/unit/libinterp_queue.c \
	test/unit/libinterp_user.c \
	test/unit/libkfd_fake.c \
	test/unit/libkfd_fake.h \
	test/unit/libkfd_fake_engines.c \
	test/unit/libkfd_fake_internal.h \
	test/unit/libkfd_fake_queues.c \
	test/unit/libkfd_fake_rocr.c \
	test/unit/libkfd_fake_use.c \
	test/unit/liblease.c \
	test/unit/liblease.h \
	test/unit/libodd.c \
	test/unit/libodd.h \
	test/unit/libpart.c \
	test/unit/libpart.h \
	test/unit/libpersistent.c \
	test/unit/libpersistent.h \
	test/unit/libsdma_decode.c \
	test/unit/libsdma_decode.h \
	test/unit/libsdma_stage.c \
	test/unit/libsdma_stage.h \
	test/unit/libsdma_tree.c \
	test/unit/libsdma_tree.h \
	test/unit/libstream.c \
	test/unit/libstream.h \
	test/unit/libstrips.c \
	test/unit/libstrips.h \
	test/unit/libthreads.c \
	test/unit/libthreads.h \
	test/unit/libunit.c \
	test/unit/libunit.h \
	test/unit/libvendor.c \
	test/unit/libvendor.h \
	test/unit/libwire.c \
	test/unit/libwire.h
unit_cppflags = \
	-DDMA_TEST_LIBRARIES='"$(abs_builddir)/test/unit"' \
	-DDMA_TEST_TOPOLOGIES='"$(abs_top_srcdir)/test/topologies"'

# counts the plans that are built
test_unit_test_cluster_kept_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=dma_cluster_build,--wrap=dma_cluster_bytes
# has no memory left, and what needs it says so
test_unit_test_no_memory_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=calloc,--wrap=dma_ipc_create,--wrap=dma_ipc_export,--wrap=dma_ipc_open \
	-Wl,--wrap=dma_device_bind
# changes what ranks publish in set-up
test_unit_test_reasons_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=dma_bootstrap_record,--wrap=dma_geom_valid,--wrap=dma_registry_get
# one rank of it has no memory left
test_unit_test_cluster_told_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc,--wrap=calloc
# counts the allocations of a call
test_unit_test_device_cost_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc,--wrap=calloc
test_unit_test_pause_LDFLAGS = $(AM_LDFLAGS) \
	-Wl,--wrap=clock_gettime,--wrap=nanosleep,--wrap=sched_yield,--wrap=getrusage
test_unit_test_device_epochs_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=dma_random_epoch
test_unit_test_device_submitter_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=dma_bell_wake
# looks at failed starts while a plan is freed
test_unit_test_in_stream_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=dma_plan_cache_free
test_unit_test_path_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc,--wrap=calloc,--wrap=dma_gpu_runtime_loaded
# fails in the middle
test_unit_test_device_init_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=dma_comm_run_own,--wrap=dma_device_read_records,--wrap=dma_mapping_alive
# has no memory left
test_unit_test_device_ipc_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc
# counts blocks of an arena
test_unit_test_lease_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=dma_arena_alloc
# sees whether pinned memory is unmapped
test_unit_test_lease_cases_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=mmap,--wrap=munmap
# load libraries that stand in for the vendors'
EXTRA_test_unit_test_gpu_adopt_DEPENDENCIES = $(fake_drivers)
EXTRA_test_unit_test_gpu_reset_DEPENDENCIES = $(fake_drivers)
EXTRA_test_unit_test_gpu_runtime_DEPENDENCIES = $(fake_drivers)
# finds a library that lacks a call
test_unit_test_gpu_adopt_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=dlsym
# sees which libraries are opened
test_unit_test_gpu_runtime_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=dlopen,--wrap=dl_iterate_phdr
# is interrupted, and has little shared memory
test_unit_test_node_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=posix_fallocate
# counts allocations, and their bytes
test_unit_test_relay_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc,--wrap=calloc,--wrap=free
# find the ROCr and the providers of libkfd_fake.h
test_unit_test_sdma_arm_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=dma_rocr_find,--wrap=dma_providers \
	-Wl,--wrap=malloc,--wrap=calloc,--wrap=clock_gettime
test_unit_test_sdma_parts_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=dma_rocr_find,--wrap=dma_providers
test_unit_test_sdma_bound_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=dma_rocr_find,--wrap=dma_providers
test_unit_test_sdma_watch_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=dma_rocr_find,--wrap=dma_providers
test_unit_test_sdma_engine_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=dma_rocr_find,--wrap=dma_providers
test_unit_test_sdma_lower_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=dma_rocr_find,--wrap=dma_providers
test_unit_test_sdma_queue_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=dma_rocr_find,--wrap=dma_providers
test_unit_test_sdma_rocr_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=dma_rocr_find,--wrap=dma_rocr_queues_find
test_unit_test_sdma_record_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=dma_rocr_find,--wrap=dma_providers
# The kernel's header, if there is one, needs one of DRM's, which may not be there.
test_unit_test_sdma_kfd_CPPFLAGS = $(AM_CPPFLAGS) -idirafter $(top_srcdir)/test/unit/kernel
# test a tool, and so need its sources
if HAVE_CHECK
test_unit_test_info_SOURCES = test/unit/test_info.c $(info_sources)
test_unit_test_gpu_fit_SOURCES = test/unit/test_gpu_fit.c $(fit_sources)
test_unit_test_gpu_fit_CPPFLAGS = $(AM_CPPFLAGS) -DSOURCE_DIR='"$(abs_top_srcdir)"'
test_unit_test_stream_stamps_SOURCES = test/unit/test_stream_stamps.c $(trace_tool_sources)
test_unit_test_stream_stamps_LDADD = $(LDADD) -lm
test_unit_test_gpu_fit_LDADD = $(LDADD) -lm
endif
