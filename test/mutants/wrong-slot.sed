# Two calls share a slot.
# file: ompi_coll_dma/node/window.h
# build: plain
# tests: test_threads:blocking test_threads:a_thousand_ahead
/layout.slots/s/w->geom.ring_depth - 1/(w->geom.ring_depth - 1) \/ 4/
