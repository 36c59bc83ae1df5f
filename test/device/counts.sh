#!/bin/bash
# counts.sh [BUILD]: how many packets of each kind, completions and doorbells a collective of each variant takes on 8 GPUs, and
# that the table in docs/dev/cost-model.md says so; that MPI_Wait of a prelaunched call writes no packet; and what is left of
# memory that a program frees in a loop.
set -uo pipefail
# shellcheck source=test/device/common.sh
. "$(dirname "$0")/common.sh"
arm_always

# counted VARIANT QUEUES ROWS... (programs stay armed, however slow the machine is)
counted() {
    job 120 8 mi300x 8 --mca coll_dma_gpu_variant "$1" --mca coll_dma_gpu_queues "$2" --mca coll_dma_armed_seconds 100 \
        "$build/test/device/counts" "${@:3}" && silent
}

# documented VARIANT: the rows of the table in docs/dev/cost-model.md, as arguments of the program. The table is what the node must
# show: "| pcpy | all-gather | in place | moves | completions | POLL | COND_EXE | doorbells | ... |"
documented() {
    sed -n '/^<!-- packets -->$/,/^<!-- \/packets -->$/p' "$root/docs/dev/cost-model.md" | awk -F ' *[|] *' -v variant="$1" '
        $2 == variant {
            printf "%s %s persistent", $3 == "all-gather" ? "allgather" : "alltoall", $4 == "in place" ? "in" : "out"
            for (i = 5; i <= 9; i++) {
                sub(/ /, "", $i)
                printf " %s", $i
            }
            printf "\n"
        }'
}

# armed VARIANT QUEUES ROWS: what the document says, in so many rows; and a call that is not armed
armed() {
    local words
    mapfile -t words < <(documented "$1" | tr ' ' '\n')
    [ ${#words[@]} -eq $((8 * $3)) ] || {
        echo "docs/dev/cost-model.md has $((${#words[@]} / 8)) rows of $1, not $3"
        return 1
    }
    counted "$1" "$2" "${words[@]}" "${@:4}"
}

ok 'pcpy: as documented, and 7 packets, completions and doorbells of a GPU that is not armed' armed pcpy 0 3 \
    allgather in blocking '56(7)' '56(7)' 0 0 '56(7)' alltoall out blocking '64(8)' '64(8)' 0 0 '64(8)'
ok 'bcst: as documented, and 4' armed bcst 0 2 allgather in blocking '32(4)' '32(4)' 0 0 '32(4)'
ok 'b2b on one queue: as documented, and 7 packets with one completion' armed b2b 1 3 \
    allgather in blocking '56(7)' '8(1)' 0 0 '8(1)' alltoall out blocking '64(8)' '16(2)' 0 0 '16(2)'
ok 'swap: as documented, and 4 at most' armed swap 0 1 alltoall in blocking '28(4)' '28(4)' 0 0 '28(4)'
ok 'halves: as documented, and 7' armed halves 0 1 alltoall in blocking '56(7)' '56(7)' 0 0 '56(7)'
# As the built-in profile says: with 7 queues for peers programs are armed, with 4 they are not. All-gathers in place, too: with the
# queue of an own block bcst would gain.
as_predicted() (
    unset OMPI_MCA_coll_dma_gpu_profile
    mapfile -t words < <(documented pcpy | head -n 1 | tr ' ' '\n')
    counted pcpy 0 "${words[@]}" && counted swap 0 alltoall in unarmed '28(4)' '28(4)' 0 0 '28(4)' &&
        counted bcst 0 allgather in unarmed '32(4)' '32(4)' 0 0 '32(4)'
)
ok 'armed where the model sees a gain: pcpy, and not swap and bcst in place' as_predicted
# Random collectives after which the counters equal what the node has seen, exactly.
# equal SEED PERSONA RANKS VARIANT
equal() {
    job 60 4 "$2" "$3" --mca coll_dma_gpu_variant "$4" "$build/test/device/counted" "$1" 15 && silent
}
seed=${DMA_SEED:-1}
for variant in auto pcpy b2b bcst swap halves; do
    seed=$((seed + 1))
    ok "counters, variant $variant, seed $seed" equal $seed mi300x 4 $variant
done
ok 'counters, 2 ranks' equal $((seed + 1)) mi300x 2 auto
ok 'counters, GPUs without swap and broadcast' equal $((seed + 2)) mi250x 3 auto

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
