#!/bin/bash
# A rank that is stopped is late, not dead. After SIGSTOP for longer than every time limit that is on, and SIGCONT, the
# collectives go on with the right data. In between, a line says which rank is waited for. stop.sh [-- MPIRUN-ARGS...]
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=test/mpi/common.sh
. "$here/common.sh"
[ "${1:-}" != -- ] || shift
warns=yes
[ $# -eq 0 ] || warns=no
[ $# -gt 0 ] || set -- --mca coll dma
program=$(program stop) || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# stopped RANKS WHO BYTES: stops rank WHO for 2.5 s
stopped() {
    local ranks=$1 who=$2 bytes=$3 job pid first i
    local says="waited .* for rank $who\\b"
    # Before the job starts, because the loop below must not read what an earlier job wrote.
    true >"$work/out"
    true >"$work/err"
    launch 60 "$ranks" --mca pml ob1 --mca mpi_yield_when_idle 1 --mca coll_dma_warn 1 "${args[@]}" \
        "$program" "$bytes" >"$work/out" 2>"$work/err" &
    job=$!
    for ((i = 0; i < 10000; i++)); do # the lines of the ranks come in any order
        pid=$(sed -n "s/^rank $who pid //p" "$work/out") first=$(sed -n 's/^rank 0 pid //p' "$work/out")
        [ -z "$pid" ] || [ -z "$first" ] || ! grep -q '^looping$' "$work/out" || break
        sleep 0.01
    done
    sleep 0.2
    if ! kill -STOP "$pid"; then
        echo "no rank $who to stop"
        kill $job
        return 1
    fi
    sleep 2.5
    for ((i = 0; i < 1000; i++)); do
        [ $warns = no ] || grep -Eq "$says" "$work/err" || { sleep 0.1 && continue; }
        break
    done
    kill -CONT "$pid"
    kill -USR1 "$first"
    if ! wait $job; then
        echo "the job failed: $(tail -n 3 "$work/err")"
        return 1
    fi
    if ! grep -q 'calls, data right$' "$work/out"; then
        echo "no right data: $(tail -n 1 "$work/out")"
        return 1
    fi
    if [ $warns = yes ] && ! grep -Eq "$says" "$work/err"; then
        echo "no line says \"$says\": $(tail -n 3 "$work/err")"
        return 1
    fi
}

args=("$@")
for what in '2 1 64' '3 0 64' '2 0 8192' '3 2 200000'; do
    read -r ranks who bytes <<<"$what"
    stopped "$ranks" "$who" "$bytes" >"$work/why"
    status=$? # of that job, not of the line below
    verdict "rank $who of $ranks stopped, $bytes bytes: $(cat "$work/why")" $status
done
finish
