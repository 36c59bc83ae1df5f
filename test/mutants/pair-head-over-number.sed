# The head is longer than its place.
# file: ompi_coll_dma/plan/host_pair.c
# build: plain
# tests: test_plans:every_variant
s/head = place_bytes\(req\) - number_bytes\(req\)/head = place_bytes(req)/
