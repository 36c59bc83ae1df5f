# The communicator's lock orders nothing.
# file: ompi_coll_dma/core/comm.h
# build: thread
# tests: test_threads:threads_of_one_rank
/atomic_exchange_explicit\(&comm->locked/s/memory_order_acquire/memory_order_relaxed/
/comm->locked, 0/s/memory_order_release/memory_order_relaxed/
