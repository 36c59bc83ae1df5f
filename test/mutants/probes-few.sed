# A link that is interrupted for a few seconds is taken for dead.
# file: ucx_tl/listen.c
# tests: test_ucx_tl_faults:when_an_idle_link_is_probed
# build: plain
s/^#define MOST_PROBES .*/#define MOST_PROBES 3/
s/whole < 8 ? 1 : whole < 12 ? 2 : whole \/ 6/whole \/ 2/
