# A chunk is spread before it has come.
# file: ompi_coll_dma/plan/cluster/allgather.c
# build: plain
# tests: test_cluster:every_algorithm
s/had \+ \(c \+ step < carried \? c \+ step : carried\)/had + (c + step < carried ? c : carried ? carried - 1 : 0)/
