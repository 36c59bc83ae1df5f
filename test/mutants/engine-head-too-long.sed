# A long block has a head.
# file: include/dma/engine.h
# build: plain
# tests: test_forms:any_form_of_any_operation test_forms:any_form_with_each_variant
s/head = bytes <= run->plan->head \? bytes : 0/head = bytes <= run->plan->head ? bytes : run->plan->head/
