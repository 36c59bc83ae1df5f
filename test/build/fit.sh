#!/bin/bash
# fit.sh BUILD: the program that fits profiles of DMA engines, as its user sees it, and the program that summarizes
# measurements. test_gpu_fit tests what the first one computes.
set -euo pipefail
fit=$(cd "$1" && pwd)/tools/fit_gpu
cd "$(dirname "$0")/../.."
# shellcheck source=test/lib.sh
. test/lib.sh
measured=(test/data/mi300x_speedups.csv test/data/mi300x_phases.csv)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The logarithms of another machine may lead the search to neighboring constants that are as good. Then names and comments
# are equal, and values are not.
same_form() {
    "$fit" "${measured[@]}" >"$work/again"
    diff <(awk '!/^#/ { $2 = "" } !/^# Error/' profiles/mi300x.txt) <(awk '!/^#/ { $2 = "" } !/^# Error/' "$work/again")
}

reads_what_it_writes() {
    "$fit" -r "$work/again" "${measured[@]}" >"$work/report"
    grep -q '^| among all six: three variants, each with and without prelaunch | 4[34] of 44 rows |$' "$work/report"
}

other_link() {
    "$fit" -l 24000 "${measured[@]}" | grep '^link_mbps 24000 ' >/dev/null
}

bad_profile() {
    echo 'build_ps x' >"$work/bad"
    refuses "$work/bad: line 1: not an integer" "$fit" -r "$work/bad" "${measured[@]}"
}

# Twice, because rows of the same run are replaced.
summary() {
    printf '%s\n' pass,place,configuration,collective,ranks,bytes,avg_us,max_us 0,0,ours,allgather,2,4,1,1 \
        0,1,ob1,allgather,2,4,2,2 1,1,ours,allgather,2,4,3,3 1,0,ob1,allgather,2,4,4,4 >"$work/raw.csv"
    tools/summarize.py --commit abc -o "$work/summary.csv" "$work/raw.csv"
    tools/summarize.py --commit abc -o "$work/summary.csv" "$work/raw.csv"
    diff <(tail -n +2 "$work/summary.csv") - <<<'raw,abc,allgather,2,,4,,2,ours,avg_us,2,1.1,2.9,best,ob1,3,2.1,3.9,0.625,0.5125,0.7375'
}

# In the output of coll_dma_bench --csv, times of ranks and of computing are not cells, and the note has no name.
bench_summary() {
    printf '%s\n' pass,operation,ranks,place,note,bytes,mode,avg_us,min_us,max_us,overall_us,compute_us \
        '0,iallgather,2,in,skew 50,4,dma,1,0,2,9,9' '0,iallgather,2,in,skew 50,4,nccl-reg,2,1,3,8,8' >"$work/run.csv"
    tools/summarize.py --commit abc --rival stream=nccl,nccl-reg "$work/run.csv" >"$work/bench.csv"
    diff <(tail -n +2 "$work/bench.csv") - <<<'run,abc,iallgather,2,in,4,skew 50,1,dma,avg_us,1,,,stream,nccl-reg,2,,,0.5,,'
}

# The figure of shares of phases: what is published and predicted there is what it says now, and the drawing is made of it.
figure() {
    "$fit" -s profiles/mi300x.txt "${measured[@]}" >"$work/shares"
    grep -v '^emulated,' docs/user/phases.csv | grep -vxFf "$work/shares" && return 1
    [ "$(grep -c ^published docs/user/phases.csv)" -ge 6 ] && [ "$(wc -c <docs/user/phases.svg)" -lt 61440 ] || return 1
    ! command -v gnuplot >/dev/null || {
        tools/phases_figure.sh docs/user/phases.csv "$work/svg"
        [ "$(grep -c '<text>' "$work/svg")" = "$(grep -c '<text>' docs/user/phases.svg)" ]
    }
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
ok 'the figure of phases is up to date' figure
ok 'a missing file is named' refuses '/nonexistent: No such file' "$fit" /nonexistent "${measured[1]}"
ok 'a bad profile is refused, with its line' bad_profile
ok 'a full disk is an error' full_disk
if command -v python3 >/dev/null; then
    ok 'raw measurements become a summary' summary
    ok 'those of coll_dma_bench too' bench_summary
    ok 'a summary is not written over another file' refuses 'is no summary' tools/summarize.py --commit abc -o LICENSE "$work/raw.csv"
else
    echo 'not checked: summaries, because python3 is not installed'
fi
finish
