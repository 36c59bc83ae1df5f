# A short block has a full head.
# file: include/dma/engine.h
# build: plain
# tests: test_forms:any_form_of_any_operation test_forms:any_form_with_each_variant
s/head = bytes < run->plan->head \? bytes : run->plan->head/head = run->plan->head/
