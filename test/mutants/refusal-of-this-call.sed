# A refusal counts in the call in which it is told.
# file: ompi_coll_dma/task/task.c
# build: plain
# tests: test_reach:refused
s/\(int64_t\)\(task->run\.seq - seq\) > 0/true/
