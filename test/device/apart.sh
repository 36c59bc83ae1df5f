#!/bin/bash
# apart.sh [BUILD]: ranks that come late to a collective on device memory. The late ranks get their data while the first rank
# computes, with each engine, if and only if coll_dma_progress_thread is on.
set -uo pipefail
# shellcheck source=test/device/common.sh
. "$(dirname "$0")/common.sh"

# apart PATTERN FORM RANKS ARGS...: the line of the program
apart() {
    local pattern=$1 form=$2 ranks=$3 rounds=6 output status=0
    shift 3
    output=$(job 40 4 mi300x "$ranks" "$@" "$build/test/device/apart" "$form" $rounds 2>&1) || status=$?
    printf '%s\n' "$output"
    [ $status = 0 ] && grep -Eq "^apart: $pattern rounds overlapped, data right" <<<"$output" && silent
}

for engine in sdma stream; do
    for form in post two start; do
        ok "$form, engine $engine" apart '6 of 6' $form 3 --mca coll_dma_engine $engine --mca coll_dma_prelaunch 0
    done
done
ok 'without the thread' apart '0 of 6' post 2 --mca coll_dma_progress_thread 0
finish
