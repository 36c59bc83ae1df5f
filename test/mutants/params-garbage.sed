# Text behind a number is ignored.
# file: ompi_coll_dma/core/params.c
# build: plain
# tests: test_params:every_number_has_bounds
s/return end != text && \*end == '\\0';/return end != text;/
