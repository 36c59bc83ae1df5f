# What is kept of an exchange is taken too late.
# file: ompi_coll_dma/engine/stream/work.c
# build: plain
# tests: test_stream:any_call_on_late_streams
s/local_steps\[\] = \{\{KEPT, THEIRS\}, \{THEIRS, OURS\}/local_steps[] = {{THEIRS, OURS}, {KEPT, THEIRS}/
