# UCX is not told how many processes there are.
# file: ucx_tl/net.c
# build: plain
# tests: test_ucx_tl_start:tells_how_many_processes_there_are
s/UCP_PARAM_FIELD_ESTIMATED_NUM_EPS \|/0 |/
