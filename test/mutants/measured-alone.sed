# A rank goes by what it has measured itself.
# file: ompi_coll_dma/task/setup.c
# build: plain
# tests: test_measure:ranks_choose_alike
s/dma_measure_adopt\(&comm->profile, s->measured, comm->nranks, comm->share\)/dma_measure_adopt(\&comm->profile, s->measured + comm->rank, 1, comm->share)/
