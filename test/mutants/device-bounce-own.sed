# In place, the own block goes back with the others.
# file: ompi_coll_dma/device/bounce.c
# build: plain
# tests: test_device_holes:below
s/b->own_kept = call->in_place.*$/b->own_kept = false;/
