#!/bin/bash
# root.sh: roots of other series. If a root cannot be made, one line says so. If the script is killed, nothing of a root is
# left. Needs no root; it looks at the roots that ./check --series has left.
set -uo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=test/lib.sh
. "$root/test/lib.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$root/tools" "$work/"
printf 'Dir::Etc::sourcelist "/dev/null";\nDir::Etc::sourceparts "-";\n' >"$work/apt.conf"

# skipped CMD...: status 77, and exactly one line that says why
skipped() {
    local output status=0
    output=$("$@" 2>&1) || status=$?
    echo "$output"
    [ $status = 77 ] && [ "$(wc -l <<<"$output")" = 1 ] && [ -n "$output" ]
}

# killed SERIES: killed in the middle of its work. Before, no mount of it was visible here. Afterwards, no process of it is
# left
killed() {
    local sleeper=$((100000 + RANDOM)) child status=1
    "$root/tools/series.sh" enter "$1" sleep $sleeper &
    child=$!
    for ((i = 0; i < 1200 && status; i++)); do
        sleep 0.1
        ! pgrep -fx "sleep $sleeper" >/dev/null || status=0
    done
    grep "build-series-$1" /proc/mounts && status=1
    kill -9 $child
    wait $child 2>/dev/null
    for ((i = 0; i < 1200; i++)); do
        pgrep -fx "sleep $sleeper" >/dev/null || return $status
        sleep 0.1
    done
    return 1
}

ok 'a series that there is no root for' refuses usage "$root/tools/series.sh" root 4.0
ok 'no Debian mirror' skipped env APT_CONFIG="$work/apt.conf" "$work/tools/series.sh" root 5.0
for at in "$root"/build-series-*/root; do
    series=${at%/root}
    series=${series##*build-series-}
    [ ! -d "$at" ] || ok "killed in the root of $series" killed "$series"
done
finish
