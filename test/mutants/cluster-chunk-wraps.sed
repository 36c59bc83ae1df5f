# A chunk size near 2^64 makes no chunks.
# file: ompi_coll_dma/plan/cluster/allgather.c
# build: plain
# tests: test_cluster:chunk_size_near_2_64
s/bytes \/ w->chunk \+ \(bytes % w->chunk != 0\)/(bytes + w->chunk - 1) \/ w->chunk/
