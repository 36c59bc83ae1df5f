# UCX's ways to and from GPUs are taken for a network of their own.
# file: ucx_tl/transports.c
# build: plain
# tests: test_ucx_tl_start:transports_by_their_names
s/"rocm_copy\/",//
