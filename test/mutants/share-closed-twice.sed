# What was closed for its users is closed again when they let go of it.
# file: ompi_coll_dma/gpu/ipc.c
# build: plain
# tests: test_device_ipc:what_overlaps_has_been_freed
s/import->state = IMPORT_CLOSED;/import->state = IMPORT_OPEN;/
