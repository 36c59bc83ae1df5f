#!/bin/bash
# valgrind.sh [-n CASES] [-- MPIRUN-ARGS...]: a short sweep of all operations and forms under valgrind's memcheck. There must
# be no invalid read or write, and no lost block that was allocated in or through our component. stock.supp lists what stock
# Open MPI does. Runs inside ./with-build.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=test/mpi/common.sh
. "$here/common.sh"
cases=40
while getopts n: option; do
    case $option in
    n) cases=$OPTARG ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || set -- --mca coll dma
valgrind -q true 2>/dev/null || {
    echo 'valgrind does not work here'
    exit 77
}
sweep=$(program sweep) || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Whole paths show whose function it is. The component has been unloaded when leaks are reported.
memcheck=(valgrind --leak-check=full '--show-leak-kinds=definite,possible' --num-callers=50 --keep-debuginfo=yes
    --fullpath-after= "--suppressions=$here/stock.supp")

# ours LOG: its errors, and those of its lost blocks that our component allocated
ours() {
    sed 's/^==[0-9]*== \{0,1\}//; s/^ *$//' "$1" | awk -v RS= '
        /are (definitely|possibly) lost in loss record/ { if (/coll_dma/) print $0 "\n"; next }
        / at 0x/ { print $0 "\n" }'
}

# memchecked TEXT RANKS ARGS...: a run of the sweep
memchecked() {
    local text=$1 ranks=$2 bad=0 log
    shift 2
    rm -f "$work"/*.log
    launch 50 "$ranks" --mca mpi_yield_when_idle 1 "$@" "${memcheck[@]}" --log-file="$work/%p.log" \
        "$sweep" -n "$cases" -w 400 -m 100000 </dev/null >"$work/out" 2>&1 || bad=1
    grep -q "^$cases passed, 0 failed$" "$work/out" || bad=1
    [ $bad = 0 ] || tail -n 20 "$work/out"
    for log in "$work"/*.log; do
        ours "$log" >"$work/found"
        [ ! -s "$work/found" ] || bad=1
        head -n 60 "$work/found"
    done
    verdict "$text" $bad
}

memchecked 'all variants' 2 --mca pml ob1 "$@"
memchecked 'without cross-memory copies, everything small' 2 --mca pml ob1 "$@" --mca coll_dma_cross_memory 0 \
    --mca coll_dma_slot_bytes 256 --mca coll_dma_chunk_bytes 4096 --mca coll_dma_ring_depth 4
finish
