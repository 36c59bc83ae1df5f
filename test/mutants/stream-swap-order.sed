# What is kept of an exchange is taken too late.
# file: ompi_coll_dma/engine/stream/work.c
# build: plain
# tests: test_stream:any_call_on_late_streams
s/near\[\] = \{\{KEPT, THEIRS\}, \{THEIRS, OURS\}/near[] = {{THEIRS, OURS}, {KEPT, THEIRS}/
