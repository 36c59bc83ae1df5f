# Values above the upper bound of a parameter are accepted.
# file: ompi_coll_dma/core/params.c
# build: plain
# tests: test_params:every_number_has_bounds
s/ && value <= param->most//
