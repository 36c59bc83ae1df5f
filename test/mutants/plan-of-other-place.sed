# In place and not share a plan.
# file: ompi_coll_dma/core/task.c
# build: plain
# tests: test_threads:blocking
s/plans_of\(comm, task, memo\) \+ task->in_place;/plans_of(comm, task, memo);/
