# The head is longer than its place.
# file: ompi_coll_dma/plan/host/pair.c
# build: plain
# tests: test_plans:every_variant
s/room = place_bytes\(req\) - number_bytes\(req\)/room = place_bytes(req)/
