#!/bin/bash
# sweep.sh [BUILD [SEED [FIRST-LAST]]]: the random sweep on device memory, on emulated nodes of 2 to 8 GPUs of both kinds:
# all ranks on the device, some, and buffers that change their kind from call to call; every variant forced in turn, with
# the newer thunk, without prelaunch, and on nodes that are as unkind as they may be. Statistics prove that the engines did
# it. FIRST-LAST: only these of its rows.
set -uo pipefail
# shellcheck source=test/device/common.sh
. "$(dirname "$0")/common.sh"
seed=${2:-1} rows=${3:-1-99} number=0

# made_of PACKETS RANKS: the forced variant's packets are there; each process makes one or two for its self-test
made_of() {
    local n
    [ "$1" != - ] || return 0
    n=$(packets "$1")
    echo "$n packets $1"
    [ "$n" -gt $((4 * $2)) ]
}

# sweep GPUS PERSONA RANKS CASES MEMORY PACKETS VARIABLES ARGS...: VARIABLES are the node's, separated by commas
sweep() {
    local gpus=$1 persona=$2 ranks=$3 cases=$4 memory=$5 packets=$6 variables=$7 proof=(-P) status=0
    shift 7
    # A communicator's engines serve one device of a rank, and here some ranks have buffers on two.
    [ "$memory" != any ] || proof=()
    local -x EMU_SEED=$seed
    for variable in ${variables//,/ }; do
        local -x "${variable?}"
    done
    job $((60 + cases / 2)) "$gpus" "$persona" "$ranks" "$@" \
        "$build/test/mpi/sweep" -s "$seed" -n "$cases" -w 60 -m 262144 -D "$memory" "${proof[@]}" >"$work/out" 2>&1 ||
        status=$?
    grep -aE 'FAILED|passed|violation|coll/dma' "$work/out" | head -n 20
    [ $status = 0 ] && silent && made_of "$packets" "$ranks"
}

# row TITLE SWEEP'S ARGUMENTS
row() {
    seed=$((seed + 1)) number=$((number + 1))
    [ $number -lt "${rows%-*}" ] || [ $number -gt "${rows#*-}" ] || ok "$*" sweep "${@:1}"
}

variant() {
    echo "--mca coll_dma_gpu_variant $1"
}

unkind='EMU_DELAY_US=50,EMU_STALE_LOOKS=6,EMU_SLICE_US=3000'
# GPUs, persona, ranks, cases, memory, packets there must be, the node's variables, MCA parameters
# An exchange is made of swap packets only where it is aligned, which counts.sh sees to; else of copies with polls between.
row 2 mi250x 2 30 device - ''
row 4 mi300x 4 30 any - ''
row 3 mi300x 3 30 ranks - "$unkind"
row 8 mi300x 8 8 device - EMU_NEW_THUNK=1
row 2 mi300x 5 15 device - ''
row 4 mi300x 4 20 device copy '' --mca coll_dma_gpu_variant pcpy
row 5 mi300x 5 15 device broadcast "$unkind" --mca coll_dma_gpu_variant bcst
row 4 mi300x 4 20 device poll '' --mca coll_dma_gpu_variant swap
row 3 mi300x 3 20 device poll "$unkind" --mca coll_dma_gpu_variant halves
row 4 mi300x 4 15 device copy '' --mca coll_dma_gpu_variant b2b --mca coll_dma_gpu_queues 1
row 4 mi250x 4 15 any copy "$unkind" --mca coll_dma_gpu_variant b2b --mca coll_dma_gpu_queues 2
row 4 mi300x 4 15 device copy EMU_NEW_THUNK=1 --mca coll_dma_gpu_variant b2b --mca coll_dma_gpu_queues 3
finish
