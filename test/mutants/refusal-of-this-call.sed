# A refusal counts in the call in which it happens, for the rank that has been refused.
# file: ompi_coll_dma/core/task.c
# build: plain
# tests: test_reach:refused
s/if \(task->run\.refused_rank >= 0\)/if (comm->refusal_reported \&\& comm->req.cross_memory)/
