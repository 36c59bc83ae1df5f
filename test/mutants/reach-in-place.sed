# An all-to-all in place reads what is being overwritten.
# file: ompi_coll_dma/plan/host/pair.c
# build: plain
# tests: test_choose:all_to_all_in_place
/^static const char \*reach_unfit/,/^}/s/req->in_place && !gathers\(req\)/false/
