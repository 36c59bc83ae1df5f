#!/bin/bash
# calls.sh: orders of calls, matching, threads, wrong arguments and many communicators, through our component and, for
# comparison, without it. Runs inside ./with-build.
# shellcheck disable=SC1091
set -uo pipefail
here=$(dirname "$0")
. "$here/../lib.sh"
. "$here/common.sh"

overtake=$(program overtake) && match=$(program match) && badargs=$(program badargs) && dupfree=$(program dupfree) &&
    threads=$(program threads) leave=$(program leave) lacking=$(program lacking) || exit 1
export OMPI_MCA_mpi_yield_when_idle=1

for ranks in 2 3 4; do
    ok "orders of calls, $ranks ranks" launch 60 $ranks --mca coll dma "$overtake"
done
ok 'orders of calls, stepping aside' says 'overtake: .* 0 failed' \
    launch 60 2 --mca coll dma --mca coll_dma_arena_bytes 0 "$overtake"

for ranks in 2 3 5; do
    ok "matching, $ranks ranks" launch 60 $ranks --mca coll dma "$match"
done
ok 'matching, pml ucx' launch 60 3 --mca coll dma --mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any "$match"
for variant in $(host_variants); do
    ok "matching, $variant" launch 60 3 --mca coll dma --mca coll_dma_variant "$variant" "$match"
done
for ranks in 2 3; do
    ok "matching, stepping aside, $ranks ranks" says 'match: .* 0 failed' \
        launch 60 $ranks --mca coll dma --mca coll_dma_arena_bytes 0 "$match" --aside
done
# There is no room for some of the communicators and persistent requests.
for bytes in 100000 300000 1000000; do
    ok "matching, $bytes bytes of shared memory" says 'match: .* 0 failed' \
        launch 60 3 --mca coll dma --mca coll_dma_arena_bytes $bytes "$match" --aside
done

for ranks in 2 3; do
    ok "threads on communicators of their own, $ranks ranks" launch 60 $ranks --mca coll dma "$threads" 4 100
done

ok 'threads, and a tool asks for MPI_THREAD_SINGLE' launch 60 2 --mca coll dma "$threads" 3 8000 tool
ok 'threads, stepping aside' says 'threads: .* 0 failed' \
    launch 60 2 --mca coll dma --mca coll_dma_arena_bytes 0 "$threads" 4 100

# Small pieces, so that the others are in the call for longer than they poll for their peers.
for variant in host_pair host_reach; do
    ok "a rank that is done leaves, $variant" launch 60 3 --mca coll dma --mca async_mpi_finalize 1 \
        --mca coll_dma_variant $variant --mca coll_dma_chunk_bytes 4096 --mca coll_dma_chunk_depth 2 "$leave"
done

# The first collective of the job, and of a communicator, in each form. Components are those that Open MPI chooses, so that ranks
# without coll/dma have the same.
for form in blocking nonblocking persistent; do
    ok "a rank has not loaded coll/dma, $form" launch 60 3 "$lacking" 1 $form
done
ok 'the last of 4 ranks has not loaded coll/dma' launch 60 4 "$lacking" 3 blocking
ok 'the last of 5 ranks has not loaded coll/dma' launch 60 5 "$lacking" 4 nonblocking
ok 'all ranks have loaded coll/dma' launch 60 3 "$lacking" -1 blocking

# Less than the limit of a process, and more than Open MPI itself takes.
# shellcheck disable=SC2016
ok 'files of at most 20 MiB' launch 60 3 --mca coll dma bash -c 'ulimit -f 20480; exec "$0"' "$match"

# One after the other: two mpiruns that begin at the same time can use the same session directory.
same_classes() {
    local without
    without=$(launch 30 2 --mca coll ^dma "$badargs" 2>&1)
    diff <(launch 30 2 --mca coll dma "$badargs" 2>&1) <(echo "$without")
}
ok 'wrong arguments: classes were printed' says 'class 2' launch 30 2 --mca coll dma "$badargs"
ok 'wrong arguments: as without us' same_classes

# When UCX is loaded, it replaces some functions of the process.
loads_ucx() {
    launch 30 2 --mca pml ob1 --mca osc ^ucx -x LD_DEBUG=files "$@" "$overtake" 2>&1 | tee "$work/files" | grep 'init:.*libucp'
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
without_ucx() {
    ! loads_ucx --mca coll dma && grep 'init:.*mca_coll_dma' "$work/files"
}
ok 'one node: the component comes without UCX' without_ucx

ok '10000 communicators leave nothing behind' launch 100 2 --mca coll dma "$dupfree"
ok '2000 of 4 ranks' launch 100 4 --mca coll dma "$dupfree" 2000
finish
