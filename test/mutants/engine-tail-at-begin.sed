# The tail of a block is taken from its begin.
# file: include/dma/engine.h
# build: plain
# tests: test_forms:any_form_of_any_operation test_forms:any_form_with_each_variant
s/\*skip = run->plan->head;/*skip = 0;/
