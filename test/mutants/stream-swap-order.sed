# What is kept of an exchange is taken too late.
# file: ompi_coll_dma/engine/stream/work.c
# build: plain
# tests: test_stream:any_call_on_late_streams
s/enum \{ TAKE, GIVE, KEEP, STEPS \}/enum { GIVE, TAKE, KEEP, STEPS }/
