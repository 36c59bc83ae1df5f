# A post looks for its peers however often they have not come.
# file: ompi_coll_dma/core/comm.c
# build: plain
# tests: test_path:post_looks_for_its_peers
s/comm->missed_posts\+\+;/comm->missed_posts = 0;/
