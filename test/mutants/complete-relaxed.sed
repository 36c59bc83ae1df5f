# A task's data may come after its completion.
# file: ompi_coll_dma/core/task.c
# build: thread
# tests: test_threads:threads_of_one_rank
/task->state, DMA_TASK_COMPLETE/s/memory_order_release/memory_order_relaxed/
