#!/bin/bash
# osu.sh [BUILD [OSU]]: the unmodified OSU micro-benchmarks, with device memory and with their own checks of the data, on the
# emulated node. OSU, or $DMA_OSU, is a folder in which somebody has built them with --enable-rocm: the folder that has
# c/mpi/collective in it.
set -uo pipefail
# shellcheck source=test/device/common.sh
. "$(dirname "$0")/common.sh"
osu=${2:-${DMA_OSU:-}}
[ -n "$osu" ] || skip 'no OSU micro-benchmarks: DMA_OSU does not say where they have been built with --enable-rocm'

# benchmark NAME [ARGS...]: it validates every size and finds no error
benchmark() {
    local program
    program=$(find "$osu" -type f -name "$1" -perm -u+x -path '*collective*' | head -n 1)
    [ -n "$program" ] || { echo "there is no $1 in $osu"; return 1; }
    job 120 4 mi300x 4 "$program" -d rocm -c -i 2 -x 1 -m 1:65536 >"$work/out" 2>&1 || { tail -n 20 "$work/out"; return 1; }
    cat "$work/out"
    silent && grep -q 'Pass' "$work/out" && ! grep -qi 'fail' "$work/out" && [ "$(packets copy)" -gt 100 ]
}

for operation in allgather allgatherv alltoall alltoallv; do
    for name in osu_$operation osu_i$operation osu_${operation}_persistent; do
        ok "$name" benchmark "$name"
    done
done
finish
