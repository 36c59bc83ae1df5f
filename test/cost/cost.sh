#!/bin/bash
# cost.sh BUILD: what counting costs in a warm blocking all-gather of 64 bytes: instructions, by callgrind.
set -uo pipefail
build=$(cd "${1:?}" && pwd) || exit 1
# shellcheck source=test/lib.sh
. "$(dirname "$0")/../lib.sh"
most=10
valgrind -q true 2>/dev/null || skip 'valgrind does not work here'
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# total PROGRAM CALLS: instructions inside of dma_comm_run
total() {
    valgrind --tool=callgrind --toggle-collect=dma_comm_run --callgrind-out-file="$work/out" "$build/test/cost/$1" "$2" \
        >"$work/log" 2>&1 || { cat "$work/log" >&2; return 1; }
    sed -n 's/^summary: //p' "$work/out"
}

# per_call PROGRAM: of one warm call, after the first ones, which choose and build
per_call() {
    local few many
    few=$(total "$1" 100) && many=$(total "$1" 1100) && echo $(((many - few) / 1000))
}

counted=$(per_call hot_path) && uncounted=$(per_call hot_path_uncounted) || exit 1
echo "an all-gather of 64 bytes on 2 ranks: $uncounted instructions, with counting $counted"
ok "something is counted" test "$counted" -gt "$uncounted"
ok "at most $most instructions" test $((counted - uncounted)) -le $most
finish
