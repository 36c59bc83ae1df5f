# Blocks with counts are taken for equal ones, side by side.
# file: ompi_coll_dma/core/resolve.c
# build: plain
# tests: test_forms:any_form_of_any_operation
s/host && !side->counts && /host \&\& /
