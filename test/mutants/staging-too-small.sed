# Staging memory that is left from an earlier call is taken as large enough.
# file: ompi_coll_dma/core/resolve.c
# build: plain
# tests: test_path:shaped_call_allocates_once test_forms:any_form_of_any_operation
s/s && s->bytes < bytes/false/
