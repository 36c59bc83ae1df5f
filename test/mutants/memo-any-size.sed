# A choice made for one size serves all that share its place.
# file: ompi_coll_dma/core/task.c
# build: plain
# tests: test_threads:blocking
s/memo->key != key, 0/!memo->key, 0/
