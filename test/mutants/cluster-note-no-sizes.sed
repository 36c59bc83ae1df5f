# Calls of different sizes think the same of themselves.
# file: ompi_coll_dma/cluster/cluster.h
# build: plain
# tests: test_cluster_comm:algorithms_that_never_meet
s/ \+ \(\(uint32_t\)\(sizes \* UINT64_C\(0x9e3779b97f4a7c15\) >> 40\) << 8\);/ + (uint32_t)(sizes * 0);/
