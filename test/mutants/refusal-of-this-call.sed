# A refusal counts in the call in which it happens, for the rank that has been refused.
# file: ompi_coll_dma/task/task.c
# build: plain
# tests: test_reach:refused
s/if \(task->run\.refused_rank >= 0\)/if (comm->staged \&\& comm->req.cross_memory)/
