# The head is longer than its place.
# file: ompi_coll_dma/plan/host/pair.c
# build: plain
# tests: test_plans:every_variant
s/room = cell_bytes\(req\) - header_bytes\(req\)/room = cell_bytes(req)/
