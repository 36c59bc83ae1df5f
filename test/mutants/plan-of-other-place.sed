# In place and not share a plan.
# file: ompi_coll_dma/task/task.c
# build: plain
# tests: test_threads:blocking
s/memo->choice.variant\) \+ task->in_place;/memo->choice.variant);/
