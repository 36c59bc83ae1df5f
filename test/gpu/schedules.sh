#!/bin/bash
# schedules.sh [BUILD]: the program that measures layers (test/gpu/schedules) computes the right values in all variants, with
# libraries that stand in for CUDA and NCCL, and with HIP on the emulated node; and it notices what goes wrong.
set -uo pipefail
# shellcheck source=test/mpix/common.sh
. "$(dirname "$0")/../mpix/common.sh"
nccl=$build/test/bench/libfake_nccl.so
# What the stand-in for NCCL does, and how many streams may wait.
export DMA_FAKE_NCCL=stream
waiting=3

# schedules RANKS KIND ARGS...
schedules() {
    job 20 "$1" ../gpu/schedules/schedules "$2" -r 2 -w 150 "${@:3}"
}

# right ROWS RANKS KIND ARGS...: so many variants were measured, and their values are right
right() {
    local rows=$1 output
    rm -f "$work/rows.csv"
    output=$(schedules "$2" "$3" -c "$work/rows.csv" "${@:4}") || { echo "$output"; return 1; }
    echo "$output"
    grep -q '^data right$' <<<"$output" && [ "$(wc -l <"$work/rows.csv")" = "$rows" ] &&
        ! grep -vE '^[a-z]+,[0-9x]+,(bf16|tf32),[0-9],[124],[a-z]+ (after|beside),2,[0-9.]+,[0-9.]+,[0-9.]+$' "$work/rows.csv"
}

# without_order: streams that do not wait for events
without_order() {
    DMA_FAKE_CUDA=unordered refuses '^data WRONG$' schedules 2 cuda -t tf32 -n "$nccl" "$1"
}

works=(gather:64 exchange:64 transformer:64x32x64 moe:60x32x16x4)
for type in tf32 bf16; do
    ok "$type, 2 ranks: all works" right 49 2 cuda -t $type -n "$nccl" "${works[@]}"
done
ok 'tf32, 3 ranks: all works' right 49 3 cuda -t tf32 -n "$nccl" gather:96 exchange:96 transformer:192x32x96 moe:60x32x16x4
ok 'without NCCL' right 10 2 cuda gather:64
ok 'what NCCL cannot do is left out' says '^# nccl-zero is left out: there is no ncclMemAlloc' schedules 2 cuda -n "$nccl" gather:64
for part in "${works[@]}"; do
    ok "${part%:*}: a missing order is noticed" without_order "$part"
done
DMA_FAKE_NCCL=wrong ok "a byte that NCCL loses is noticed" refuses '^# nccl, 1 slices, way 0: [0-9]* of [0-9]* values are WRONG' schedules 2 cuda \
    -n "$nccl" gather:64
DMA_FAKE_NCCL=hang ok 'a turn that does not end is named' refuses '^schedules: a turn does not end: gather, set-up' schedules 2 cuda \
    -w 2 -n "$nccl" gather:64
for wrong in gather:60 nothing:64 moe:60x32x16x1 transformer:64x32; do
    ok "$wrong is refused" refuses "^schedules: $wrong" schedules 2 cuda "$wrong"
done
if [ -e "$build/test/emu/collective" ]; then
    DMA_FAKE_NCCL=now ok 'hip, 2 ranks' right 26 2 hip -t tf32 -n "$nccl" gather:32 moe:60x32x16x4
else
    echo 'not tried: HIP, because there is no emulated node'
fi
finish
