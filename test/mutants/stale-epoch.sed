# A descriptor of an earlier call counts as this one's.
# file: ompi_coll_dma/engine/host/host.c
# build: plain
# tests: test_threads:blocking
s/\(uint32_t\)run->seq\) \{/(uint32_t)run->seq \&\& d->seq > 0x7fffff00u) {/
