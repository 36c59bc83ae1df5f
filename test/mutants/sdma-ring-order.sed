# The doorbell rings before the write pointer is there.
# file: ompi_coll_dma/engine/sdma/ring.c
# build: plain
# tests: test_sdma_ring:beside_an_engine
/store_n\(ring->mem\.write_ptr/{h;d};/store_n\(ring->mem\.doorbell/{G;s/(.*)\n(.*)/\1\n    sched_yield();\n\2/};s/^#include <string.h>/&\n#include <sched.h>/
