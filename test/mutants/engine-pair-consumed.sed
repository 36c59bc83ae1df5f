# What we have taken is counted from what we have sent.
# file: ompi_coll_dma/engine/host/host.c
# build: plain
# tests: test_forms:any_form_of_any_operation test_forms:any_form_with_each_variant
s/pair_consumed, run->pair_in\[f->peer\] \+ value/pair_consumed, run->pair_out[f->peer] + value/
