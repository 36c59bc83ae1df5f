#!/bin/bash
# nomem.sh: shared memory cannot be had, in every way, on all ranks or on one; or peers' memory may not be read. A clear line
# says so, the data are right, and no file is left. Runs inside ./with-build.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=test/mpi/common.sh
. "$here/common.sh"
sweep=$(program sweep) shim=$(program libnomem_shim.so) || exit 1
shim=$(realpath "$shim")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cases=60

# Open MPI 6.0 replaces our mmap unless its memory patcher is left out.
# without WHAT RANK PATTERN ARGS... -- OPTION...: a sweep without WHAT on RANK (or "all") prints a line that matches PATTERN
without() {
    local what=$1 rank=$2 pattern=$3 bad=0 args=()
    shift 3
    while [ "$1" != -- ]; do
        args+=("$1")
        shift
    done
    shift
    [ "$rank" = all ] || args+=(-x "DMA_NOMEM_RANK=$rank")
    launch 60 3 --mca pml ob1 --mca mpi_yield_when_idle 1 --mca btl_vader_single_copy_mechanism none --mca coll dma \
        --mca memory ^patcher \
        --mca coll_dma_verbose 1 --mca orte_tmpdir_base "$work" -x "LD_PRELOAD=$shim" -x "DMA_NOMEM=$what" \
        "${args[@]}" "$sweep" -s 21 -n $cases -w 200 "$@" >"$work/out" 2>&1 || bad=1
    grep -q "^$cases passed, 0 failed$" "$work/out" || bad=1
    grep -Eq -- "$pattern" "$work/out" || bad=1
    find "$work" -name 'coll_dma.*' | grep . >/dev/null && bad=1
    [ $bad = 0 ] || { grep -E '^sweep|coll/dma|passed' "$work/out" || cat "$work/out"; } | head -n 15
    verdict "without $what on $rank" $bad
}

ready='coll/dma: communicator .* 3 ranks, ready'
aside='coll/dma: communicator .* 3 ranks, not served: '
without nothing all "$ready" --
without memfd all 'no anonymous shared memory.* \(memfd_create: .*\): a file in the session directory is tried' --
without memfd all "$ready" --
without memfd 1 "$ready" --
# The calls that go to the module below are those of stock Open MPI.
for what in memfd,file fallocate mmap; do
    without $what all 'is not served by coll/dma' -- -l bp
    without $what all "$aside" -- -l bp
    without $what 1 "$aside" -- -l bp
done
for rank in all 1; do
    without read $rank "$ready" --
    without read $rank "$ready" --mca coll_dma_variant host_reach --
    without read,memfd $rank "$ready" --mca coll_dma_variant host_reach --
done
finish
