# A stream to a peer begins again with every call.
# file: ompi_coll_dma/core/task.c
# build: plain
# tests: test_forms:any_form_of_any_operation test_forms:any_form_with_each_variant
s/comm->pair_out\[op->flag.peer\] \+= trips/comm->pair_out[op->flag.peer] += 0/
