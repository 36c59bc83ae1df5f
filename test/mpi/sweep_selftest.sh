#!/bin/bash
# Proves that the sweep notices mistakes: breaks MPI_Allgather in every way that test/mpi/break_shim.c knows, and expects the
# right message, with a case number that replays. Uses stock collectives by default: sweep_selftest.sh [MPIRUN-ARGS...]
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=test/mpi/common.sh
. "$here/common.sh"
sweep=$(program sweep) shim=$(program libbreak_shim.so) || exit 1
shim=$(realpath "$shim")
[ $# -gt 0 ] || set -- --mca coll '^dma'
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# broken MODE ARGS...: runs the sweep with a broken call
broken() {
    local mode=$1
    shift
    launch 60 3 --mca mpi_yield_when_idle 1 "${args[@]}" -x LD_PRELOAD="$shim" -x DMA_BREAK="$mode" "$sweep" -o allgather -f b "$@" >"$log" 2>&1
}
args=("$@")

# expect MODE PATTERN ARGS...: the run fails, says that it broke something, and prints a line that matches PATTERN
expect() {
    local mode=$1 pattern=$2 bad=0
    shift 2
    broken "$mode" "$@" && bad=1
    grep -q "break_shim: broke a call" "$log" || [[ $mode = hang || $mode = over ]] || bad=1
    grep -Eq -- "$pattern" "$log" || bad=1
    [ $bad = 0 ] || sed 's/^/    /' "$log" | tail -n 20
    verdict "sweep with a broken all-gather: $mode" $bad
}

broken none -n 100
verdict "sweep with a shim that breaks nothing" $?

# A case takes less than 20 seconds, however busy the machine is.
fail='sweep: rank 1 FAILED: '
expect data "${fail}receive buffer: .*data byte .* of block" -n 100
expect gap "${fail}receive buffer: .*a canary" -n 100
expect before "${fail}receive buffer: .*a canary" -n 100
expect after "${fail}receive buffer: .*a canary" -n 100
expect lost "${fail}receive buffer: .*data byte [01] of block" -n 100
expect order "${fail}receive buffer: .*data byte" -n 100
expect send:1:3 "${fail}send buffer was written" -n 100
expect error "${fail}allgather returned MPI_ERR_OTHER" -n 100
expect hang 'sweep: rank 1 hangs for 20 s; seed 1 case [0-9]+, in the call, call [0-9]+: ' -w 20 -n 100
expect stolen 'sweep: rank 1 hangs for 20 s; seed 1 case [0-9]+, .*in the user' -w 20 -n 100
expect over 'sweep: rank 1 crashes \(SIGSEGV\); seed 1 case [0-9]+, in the call, call [0-9]+: ' -n 100

# A failure on one rank only counts once in rank 0's last line, and replaying this case alone shows it again.
broken data:2:9 -n 100
grep -q '^99 passed, 1 failed$' "$log"
verdict "sweep counts one failed case" $?
number=$(sed -n 's/.*FAILED: .*; seed 1 case \([0-9]*\), .*/\1/p' "$log" | head -n 1)
broken data:2:1 -c "${number:-0}"
grep -q "rank 2 FAILED: .* case ${number:-none}," "$log"
verdict "sweep replays case ${number:-none}" $?

finish
