# A refused queue keeps its page of pointers.
# file: ompi_coll_dma/engine/sdma/kfd.c
# build: plain
# tests: test_sdma_kfd:every_call_fails
/^free_pointers:/,/^}/s/k->rocr\.pool_free\(pointers\);//
