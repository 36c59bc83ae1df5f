# A stream from a peer moves on by one in every call.
# file: ompi_coll_dma/core/task.c
# build: plain
# tests: test_forms:any_form_of_any_operation test_forms:any_form_with_each_variant
s/comm->pair_in\[op->flag.rank\] \+= trips/comm->pair_in[op->flag.rank] += 1/
