# The own block waits for the others.
# file: ompi_coll_dma/plan/gpu/cost.c
# build: plain
# tests: test_gpu_cost:bytes_per_engine_and_link
s/copy = dma_wide_max\(copy, (.*)\);/copy += \1;/
