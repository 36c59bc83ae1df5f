# A peer's buffer is looked for where ours would be.
# file: ompi_coll_dma/engine/host/host.c
# build: plain
# tests: test_forms:any_form_of_any_operation test_forms:any_form_with_each_variant
s/: run->pair_in\[o->rank\]\)/: run->pair_out[o->rank])/
