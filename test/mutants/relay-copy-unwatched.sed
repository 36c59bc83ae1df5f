# A copy inside the device counts before it is complete.
# file: ompi_coll_dma/cluster/call.c
# build: plain
# tests: test_relay:every_algorithm_in_any_memory test_relay:nodes_use_their_engines test_relay:forms
s/^    if \(c->call.copying\) \{/    if (false) {/
