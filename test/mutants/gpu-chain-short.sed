# The queue that has one packet more than the others is forgotten.
# file: ompi_coll_dma/plan/gpu/cost.c
# build: plain
# tests: test_gpu_cost:counts_of_a_process_per_gpu
s/\(packets \+ queues - 1\) \/ queues/packets \/ queues/
