# Programs that are for their loop alone have their turns without trips.
# file: ompi_coll_dma/engine/host/host.c
# build: plain
# tests: test_reach:heads_run_alone
s/prog->loop_only && !c->trips/false/
