# What the runtime still held is not closed again.
# file: ompi_coll_dma/gpu/ipc.c
# tests: test_device_ipc:held_by_the_runtime
# build: plain
/^static void close_again/,/^}/s/close_import\(share, i\);/i->state = IMPORT_CLOSED;/
