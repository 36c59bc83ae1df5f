#!/bin/bash
# big.sh: more than 2 GiB in one call, over shared memory and with cross-memory copies. Runs inside ./with-build.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=test/mpi/common.sh
. "$here/common.sh"
big=$(program big) || exit 1
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# big_run TEXT ARGS...: one mpirun with these arguments
big_run() {
    local text=$1 status=0
    shift
    launch 80 2 --mca mpi_yield_when_idle 1 --mca coll dma "$@" >"$log" 2>&1 || status=$?
    if [ $status = 77 ]; then
        grep '^this test needs' "$log"
        exit 77
    fi
    cat "$log"
    grep -q '^big: .* 0 failed$' "$log" || status=1
    verdict "$text" $status
}
big_run 'as it comes' "$big"
big_run 'through shared memory' --mca coll_dma_cross_memory 0 "$big" some
big_run 'by cross-memory copies' --mca coll_dma_variant host_reach "$big" some
finish
