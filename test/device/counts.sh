#!/bin/bash
# counts.sh [BUILD]: how many packets copy and how many complete, for each variant, per collective and GPU on 8 GPUs. The
# start of a prelaunched call writes no packet. Also: what remains of memory that a program frees in a loop.
set -uo pipefail
# shellcheck source=test/device/common.sh
. "$(dirname "$0")/common.sh"

# counted VARIANT QUEUES ROWS... (programs stay armed, however slow the machine is)
counted() {
    job 120 8 mi300x 8 --mca coll_dma_gpu_variant "$1" --mca coll_dma_gpu_queues "$2" --mca coll_dma_armed_seconds 100 \
        "$build/test/device/counts" "${@:3}" && silent
}

ok 'pcpy: 7 and 7, 8 and 8 out of place; armed: no doorbell' counted pcpy 0 allgather in blocking 7 7 \
    allgather out blocking 8 8 alltoall out blocking 8 8 allgather in persistent 7 7 alltoall out persistent 8 8
ok 'bcst: 4 and 4, 5 and 5 out of place' counted bcst 0 allgather in blocking 4 4 allgather out blocking 5 5 \
    allgather in persistent 4 4
ok 'b2b: 7 and 1, 8 and 2 out of place' counted b2b 1 allgather in blocking 7 1 allgather out blocking 8 2 \
    alltoall out blocking 8 2 allgather in persistent 7 1
ok 'swap: 4 and 4 at most' counted swap 0 alltoall in blocking 4 4 alltoall in persistent 4 4
ok 'halves: 7 and 7' counted halves 0 alltoall in blocking 7 7 alltoall in persistent 7 7
# Random collectives after which the counters are exactly what the node has seen.
# equal SEED PERSONA RANKS VARIANT
equal() {
    job 60 4 "$2" "$3" --mca coll_dma_gpu_variant "$4" "$build/test/device/counted" "$1" 15 && silent
}
for variant in auto pcpy b2b bcst swap halves; do
    seed=$RANDOM
    ok "counters, variant $variant, seed $seed" equal $seed mi300x 4 $variant
done
ok 'counters, 2 ranks' equal $RANDOM mi300x 2 auto
ok 'counters, GPUs without swap and broadcast' equal $RANDOM mi250x 3 auto

# kept MOST ENGINE ARGS...: a loop of allocations, collectives and frees leaves at most this much with the driver, beyond
# what was there at the beginning
kept() {
    local line first most
    line=$(job 60 2 mi250x 2 --mca coll_dma_engine "$2" "$build/test/device/held" -r 100 "${@:3}" | grep '^held: ') || return 1
    echo "$line"
    read -r first most < <(echo "$line" | sed -n 's/held: \([0-9]*\) at first, \([0-9]*\) at the most.*right$/\1 \2/p')
    [ $((most - first)) -le "$1" ] && silent
}

# Without blocks for small allocations the runtime gives all memory back.
kept_without_blocks() {
    HSA_DISABLE_FRAGMENT_ALLOCATOR=1 kept "$@"
}

ok 'small allocations that were freed: at most 64 blocks stay' kept 64 sdma
ok 'the same with the engine stream' kept 64 stream
ok 'none of large allocations' kept 0 auto -b 4194304
ok 'none where the runtime has no blocks' kept_without_blocks 0 auto
finish
