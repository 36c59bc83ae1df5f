# A call that ends while it is posted is told of twice.
# file: ompi_coll_dma/core/comm.c
# build: plain
# tests: test_forms:any_form_of_any_operation test_path:post_that_ends_costs
s/task->done = outcome \? NULL : done;/task->done = done;/
