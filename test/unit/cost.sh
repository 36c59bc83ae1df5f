#!/bin/bash
# cost.sh BUILD: what a small call pays for the state (core/state.h) and for a trace that is off. The cost is counted by
# callgrind in instructions: those of the source lines that name the state or the trace, and those of trace/trace.h.
# test_path makes the calls: blocking all-gathers of 1 to 96 bytes whose peer has already entered. Other instructions of
# the same lines are counted too.
set -uo pipefail
build=$(cd "${1:?}" && pwd)
root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=test/lib.sh
. "$root/test/lib.sh"
most=10
calls=205 # the calls that small_call_costs makes: 41 of each of 5 sizes
command -v valgrind >/dev/null || skip 'valgrind is not installed'
# shellcheck source=/dev/null
. "$build/config/build.env"
[ -z "${dma_sanitizers:-}" ] || skip 'valgrind does not run programs with sanitizers'
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# instructions: of all calls, by source line, as "COUNT FILE:LINE"
instructions() {
    (cd "$work" && env CK_FORK=no CK_RUN_CASE=small_call_costs valgrind --tool=callgrind --callgrind-out-file=out \
        --toggle-collect=dma_comm_run --compress-strings=no --compress-pos=no "$build/test/unit/test_path") >"$work/log" 2>&1 ||
        { cat "$work/log"; return 1; }
    awk '
        /^(fl|fi|fe)=/ { file = substr($0, 4); next }
        /^calls=/ { getline; next } # what the function that is called has cost
        /^[0-9]+ [0-9]+$/ { cost[file ":" $1] += $2 }
        END { for (at in cost) print cost[at], at }' "$work/out"
}

# the product's lines of these sources, with their texts
ours() {
    local count at file line text
    while read -r count at; do
        file=${at%:*} line=${at##*:}
        [[ $file = */ompi_coll_dma/* && -e $file ]] || continue
        text=$(sed -n "${line}p" "$file")
        if [[ $file = */trace/trace.h || $text = *dma_trace_* || $text = *dma_state_* || $text = *'->row'* ]]; then
            echo "$count ${file##*/ompi_coll_dma/}:$line $text"
        fi
    done <"$work/lines"
}

# Instructions for each call.
costs() {
    instructions >"$work/lines" || return 1
    ours | sort -rn
    ours | awk -v calls=$calls -v most=$most '
        { sum += $1 }
        END {
            printf "%.2f instructions for each of %d calls\n", sum / calls, calls
            exit !(sum >= 2 * calls && sum <= most * calls)
        }'
}

ok "a small call costs at most $most instructions more" costs
finish
