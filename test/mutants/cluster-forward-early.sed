# A chunk is passed on before it has come.
# file: ompi_coll_dma/plan/cluster/allgather.c
# build: plain
# tests: test_cluster:every_algorithm
s/receives_before\(had, c, due\) : had \+ c \+ 1/receives_before(had, c, due) : had + c/
