# A refusal of a call before counts.
# file: ompi_coll_dma/engine/host/host.c
# build: plain
# tests: test_reach:refused
s/memory_order_relaxed\) == run->seq; \/\* `landed`/memory_order_relaxed) != 0; \/* `landed`/
