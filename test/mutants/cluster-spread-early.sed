# A chunk is spread before it has come.
# file: ompi_coll_dma/plan/cluster_gather.c
# build: plain
# tests: test_cluster:every_algorithm
s/c < carried \? had \+ c \+ 1/c < carried ? had + c/
