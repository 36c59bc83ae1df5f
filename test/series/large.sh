#!/bin/bash
# large.sh: more than 2^31 elements: all four operations in all three forms, and some of them with each variant. Runs inside
# ./with-build.
# shellcheck disable=SC1091
set -uo pipefail
here=$(dirname "$0")
. "$here/../lib.sh"
. "$here/../mpi/common.sh"
counts=${DMA_TEST_BIN:?}/../series/counts
export OMPI_MCA_mpi_yield_when_idle=1

status=0
output=$("$counts" nothing 2>&1 </dev/null) || status=$?
[ $status != 77 ] || skip "$output"

# large ARGS...: all calls are right, and there were as many as expected
large() {
    local checks=$1
    shift
    says "counts: $checks checks, 0 failed" launch 280 2 --mca coll dma "$@"
}

ok 'all operations, all forms' large 120 "$counts"
ok 'through shared memory' large 30 --mca coll_dma_cross_memory 0 "$counts" some
# Then blocking calls go to the component below, and stock Open MPI 6.0 crashes in such an all-gather-v.
ok 'by messages' large 20 --mca coll_dma_arena_bytes 0 "$counts" posted
for variant in host_pipe host_pair host_reach; do
    ok "$variant" large 30 --mca coll_dma_variant $variant "$counts" some
done
finish
