# DONE of the call before is enough.
# file: ompi_coll_dma/engine/host.c
# build: plain
# tests: test_path:sender_waits_for_its_readers
s/(block->done, memory_order_acquire\), run->seq)\)/\1 - 1)/
