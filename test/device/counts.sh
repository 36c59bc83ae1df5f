#!/bin/bash
# counts.sh [BUILD]: how many packets copy and how many completions there are, of each variant, per collective and GPU on
# 8 GPUs; and that the start of a prelaunched call writes no packet.
set -uo pipefail
# shellcheck source=test/device/common.sh
. "$(dirname "$0")/common.sh"

# counted VARIANT QUEUES ROWS... (what is armed stays so, however slow the machine is)
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
# Random collectives after which the counters equal what the node has seen, exactly.
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
finish
