# The self-test's memory is freed although a queue may still write there.
# file: ompi_coll_dma/engine/sdma/selftest.c
# build: plain
# tests: test_sdma_queue:late_in_the_self_test
s/^    if \(t\.late\) \{/    if (t.late \&\& !t.queue) {/
