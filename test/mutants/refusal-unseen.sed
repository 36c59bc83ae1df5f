# What a peer says of a refusal is not looked at.
# file: ompi_coll_dma/engine/host/host.c
# build: plain
# tests: test_reach:refused
s/^        run->refused_rank = peer;$//
