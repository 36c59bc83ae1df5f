# In place, the own block goes back with the others.
# file: ompi_coll_dma/task/device_bounce.c
# build: plain
# tests: test_device_holes:below
s/b->own_kept = call->in_place.*$/b->own_kept = false;/
