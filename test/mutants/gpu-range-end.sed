# A buffer may reach one byte beyond its allocation.
# file: ompi_coll_dma/gpu/memory.c
# build: plain
# tests: test_gpu_memory:a_range_must_end_inside_its_allocation
s/bytes <= memory->size - offset/bytes <= memory->size - offset + 1/
