# Streaming calls of one communicator run at once.
# file: ompi_coll_dma/core/task.c
# build: plain
# tests: test_threads:a_thousand_ahead test_threads:blocking_behind_non_blocking
s/if \(comm->streaming\)/if (false)/
