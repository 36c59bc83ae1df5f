# The last place reaches beyond the slot.
# file: ompi_coll_dma/plan/host/slot.c
# build: plain
# tests: test_plans:limits
s/- 1\) \/ 8 \* 8;/- 1) \/ 8 * 8 + 8;/
