# In an all-to-all every peer gets the first block.
# file: ompi_coll_dma/plan/host/slot.c
# build: plain
# tests: test_plans:every_variant
s/block = gathers\(req\) \? 0 : p;/block = 0;/
