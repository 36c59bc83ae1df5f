#!/bin/bash
# Different byte counts on one communicator end in errors on every rank. unequal.sh [-- MPIRUN-ARGS...]
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=test/mpi/common.sh
. "$here/common.sh"
[ "${1:-}" != -- ] || shift
[ $# -gt 0 ] || set -- --mca coll dma
program=$(program unequal) || exit 1
log=$(mktemp)
trap 'rm -f "$log"' EXIT

unequal_run() { # RANKS MPIRUN-ARGS...
    local ranks=$1 status good bad
    shift
    launch 60 "$ranks" --mca pml ob1 --mca mpi_yield_when_idle 1 "$@" "$program" >"$log" 2>&1
    status=$?
    # The output is the errors themselves, a line for each.
    [ $status = 0 ] || grep -v '^\[.*coll/dma:' "$log" | head -n 20
    read -r good _ bad _ < <(grep -E '^[0-9]+ passed, [0-9]+ failed$' "$log")
    passed=$((passed + ${good:-0}))
    failed=$((failed + ${bad:-1}))
}
for ranks in 2 3 5; do
    unequal_run $ranks "$@"
done
# A rank that has failed frees memory that others are reading.
unequal_run 3 "$@" --mca coll_dma_variant host_reach
finish
