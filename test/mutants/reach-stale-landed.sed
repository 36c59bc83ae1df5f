# That a block of the call before has been read is enough.
# file: ompi_coll_dma/engine/host/host.c
# build: plain
# tests: test_path:sender_waits_for_its_readers
s/want = run->seq - 1 \+ value/want = run->seq - 2 + value/
