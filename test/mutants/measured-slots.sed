# One rank's having seen what writing again costs is enough.
# file: ompi_coll_dma/core/setup/measure.c
# build: plain
# tests: test_measure:all_adopt_the_means
s/pushed = pushed && m->push;/pushed = pushed || m->push;/;s/pushed = true;/pushed = false;/
