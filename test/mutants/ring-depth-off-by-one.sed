# One call too many is in the ring.
# file: ompi_coll_dma/node/window.c
# build: plain
# tests: test_threads:a_thousand_ahead test_threads:blocking
s/int32_t depth = \(int32_t\)w->geom.ring_depth;/int32_t depth = (int32_t)w->geom.ring_depth + 1;/
