# The dearest variant is chosen.
# file: ompi_coll_dma/plan/choose.c
# build: plain
# tests: test_choose:the_cheapest_that_fits
s/c.cost_ps < best.cost_ps/c.cost_ps > best.cost_ps || !found/
