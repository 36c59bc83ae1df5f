#!/bin/bash
# calls.sh: orders of calls, threads, wrong arguments and many communicators, through our component and, for comparison,
# without it. Runs inside ./with-build.
# shellcheck disable=SC1091
set -uo pipefail
here=$(dirname "$0")
. "$here/../lib.sh"
. "$here/common.sh"

overtake=$(program overtake) && badargs=$(program badargs) && dupfree=$(program dupfree) &&
    threads=$(program threads) || exit 1
export OMPI_MCA_mpi_yield_when_idle=1

for ranks in 2 3 4; do
    ok "orders of calls, $ranks ranks" launch 60 $ranks --mca coll dma "$overtake"
done
ok 'orders of calls, stepping aside' says 'overtake: .* 0 failed' \
    launch 60 2 --mca coll dma --mca coll_dma_arena_bytes 0 "$overtake"

for ranks in 2 3; do
    ok "threads on communicators of their own, $ranks ranks" launch 60 $ranks --mca coll dma "$threads" 4 100
done

same_classes() {
    diff <(launch 30 2 --mca coll ^dma "$badargs" 2>&1) <(launch 30 2 --mca coll dma "$badargs" 2>&1)
}
ok 'wrong arguments: classes were printed' says 'class 2' launch 30 2 --mca coll dma "$badargs"
ok 'wrong arguments: as without us' same_classes

ok '10000 communicators leave nothing behind' launch 100 2 --mca coll dma "$dupfree"
ok '2000 of 4 ranks' launch 100 4 --mca coll dma "$dupfree" 2000
finish
