# A query that failed is believed.
# file: ompi_coll_dma/gpu/memory.c
# build: plain
# tests: test_gpu_memory:a_failing_query_is_host
s@!rt [|]{2} rt->query\(addr, memory\) != DMA_OK@rt->query(addr, memory) > DMA_OK@
