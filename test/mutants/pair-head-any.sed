# Blocks go through slots as long as they fit, whatever that costs.
# file: ompi_coll_dma/plan/host/pair.c
# build: plain
# tests: test_choose:short_blocks
s/req->head && req->head < room \? req->head : room/room/
