#!/bin/bash
# Ranks in pid namespaces of their own. Process numbers mean nothing to the peers. So shared memory is a file in the session
# directory, which is unlinked as soon as all have opened it, and no rank reads a peer's memory. Needs the right to make
# namespaces (root).
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=test/mpi/common.sh
. "$here/common.sh"
if ! unshare --pid --fork true 2>/dev/null; then
    echo 'skipped: no right to make pid namespaces'
    exit 77
fi
program=$(program sweep) || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
away=(unshare --pid --fork --kill-child)
# Open MPI's own shared memory does not work here: messages go over tcp.
options=(--mca pml ob1 --mca btl 'self,tcp' --mca mpi_yield_when_idle 1 --mca coll dma
    --mca coll_dma_verbose 1 --mca orte_tmpdir_base "$work")

# outcome TEXT FILE STATUS: the sweep passed, coll/dma served it, and no file is left
outcome() {
    local status=$3 left
    grep -q 'ranks, ready' "$2" || status=1
    left=$(find "$work" -name 'coll_dma.*' 2>/dev/null | wc -l)
    [ "$left" = 0 ] || status=1
    [ "$status" = 0 ] || grep -v 'coll/dma: ' "$2" | tail -n 30
    verdict "$1" "$status"
}

launch 60 3 "${options[@]}" "${away[@]}" "$program" -s 11 -n 60 -w 300 >"$work/out" 2>&1
outcome 'every rank in a namespace of its own' "$work/out" $?
grep -q 'a file in the session directory' "$work/out"
verdict 'a line says that there is no other way' $?

launch 60 1 "${options[@]}" "$program" -s 12 -n 60 -w 300 : -n 2 "${away[@]}" "$program" -s 12 -n 60 -w 300 >"$work/out" 2>&1
outcome 'one rank at home, two away' "$work/out" $?

launch 60 3 "${options[@]}" --mca coll_dma_variant host_reach "${away[@]}" "$program" -s 13 -n 60 -w 300 >"$work/out" 2>&1
outcome 'nobody reads memory by a number that names another process' "$work/out" $?
finish
