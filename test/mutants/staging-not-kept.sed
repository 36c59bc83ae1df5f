# Staging memory goes with its call.
# file: ompi_coll_dma/core/resolve.c
# build: plain
# tests: test_path:shaped_call_allocates_once
s/free\(s->bytes > STAGING_KEPT .*$/free(s);/
