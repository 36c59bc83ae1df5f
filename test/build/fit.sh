#!/bin/bash
# fit.sh BUILD: the program that fits profiles of DMA engines, as its user sees it. What it computes is test_gpu_fit's.
set -euo pipefail
fit=$(cd "$1" && pwd)/tools/fit_gpu
cd "$(dirname "$0")/../.."
# shellcheck source=test/lib.sh
. test/lib.sh
measured=(test/data/mi300x_speedups.csv test/data/mi300x_phases.csv)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Another machine's logarithms may lead the search to neighbours as good: names and comments are equal then, not values.
same_form() {
    "$fit" "${measured[@]}" >"$work/again"
    diff <(awk '!/^#/ { $2 = "" } !/^# Error/' profiles/mi300x.txt) <(awk '!/^#/ { $2 = "" } !/^# Error/' "$work/again")
}

reads_what_it_writes() {
    "$fit" -r "$work/again" "${measured[@]}" >"$work/report"
    grep -q '^| among all six variants | 4[34] of 44 rows |$' "$work/report"
}

other_link() {
    "$fit" -l 24000 "${measured[@]}" | grep -q '^link_mbps 24000 '
}

bad_profile() {
    echo 'build_ps x' >"$work/bad"
    refuses "$work/bad: line 1: not an integer" "$fit" -r "$work/bad" "${measured[@]}"
}

full_disk() {
    # shellcheck disable=SC2016 # for the inner shell
    refuses 'No space left' sh -c '"$@" >/dev/full' sh "$fit" "${measured[@]}"
}

ok 'it makes the profile that comes with the product' same_form
ok 'it reads what it writes' reads_what_it_writes
ok "a link's rate is kept" other_link
ok 'without files it says how it is used' refuses 'usage: fit_gpu' "$fit"
ok 'a rate of no sense is refused' refuses 'usage: fit_gpu' "$fit" -l 12x "${measured[@]}"
ok 'a rate of 0 is refused' refuses 'usage: fit_gpu' "$fit" -l 0 "${measured[@]}"
ok 'an unknown option is refused' refuses 'usage: fit_gpu' "$fit" -x "${measured[@]}"
ok 'a profile has its own rate' refuses 'usage: fit_gpu' "$fit" -l 24000 -r profiles/mi300x.txt "${measured[@]}"
ok 'a missing file is named' refuses '/nonexistent: No such file' "$fit" /nonexistent "${measured[1]}"
ok 'a bad profile is refused, with its line' bad_profile
ok 'a full disk is an error' full_disk
finish
