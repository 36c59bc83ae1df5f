# A rank goes by what it has measured itself.
# file: ompi_coll_dma/core/setup/setup.c
# build: plain
# tests: test_measure:ranks_choose_alike
s/dma_measure_adopt\(&comm->profile, s->measured, comm->nranks, comm->oversubscribed\)/dma_measure_adopt(\&comm->profile, s->measured + comm->rank, 1, comm->oversubscribed)/
