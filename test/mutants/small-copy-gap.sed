# The last bytes of a block of 8 to 15 bytes are not copied.
# file: ompi_coll_dma/engine/host/host.c
# build: plain
# tests: test_forms:any_form_of_any_operation test_threads:blocking
s/memcpy\(dst \+ bytes - 8, &last, 8\);//
