# An old descriptor puts an acknowledgement back.
# file: ompi_coll_dma/engine/host/host.c
# build: plain
# tests: test_failures:acknowledgements_never_go_back
s/\(int32_t\)\(d->ack - w->acks\[peer\]\) > 0/true/
