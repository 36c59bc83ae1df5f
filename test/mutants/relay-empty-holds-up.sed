# A rank that gets nothing makes its node go through the host.
# file: ompi_coll_dma/device/resolve.c
# build: plain
# tests: test_relay:nodes_use_their_engines
s/if \(!recv_span.bytes && /if (false \&\& /
