#!/bin/bash
# sweep.sh [BUILD [SEED [FIRST-LAST [PART]]]]: the random sweep on device memory, on emulated nodes of 2 to 8 GPUs of all
# kinds: all ranks on the device, some ranks, and buffers that change their kind from call to call; every variant forced in
# turn, with armed programs and without; on nodes that use every freedom of the hardware. Statistics prove that the engines
# carried out the calls. FIRST-LAST: only these of its rows. PART: 0 to 3: one of the four rows of a forced variant,
# another one for each variant and each part.
set -uo pipefail
# shellcheck source=test/device/common.sh
. "$(dirname "$0")/common.sh"
arm_always
seed=${2:-1} rows=${3:-1-99} part=${4:-whole} number=0 turn=0 most=65536

# made_of PACKETS RANKS: the packets of the forced variant are there. Each process makes one broadcast, and up to eight
# copies and polls, for its self-test
made_of() {
    local n own=8
    [ "$1" != broadcast ] || own=2
    [ "$1" != - ] || return 0
    n=$(packets "$1")
    echo "$n packets $1"
    [ "$n" -gt $((own * $2)) ]
}

# sweep GPUS PERSONA RANKS CASES MEMORY PACKETS VARIABLES ARGS...: VARIABLES are those of the node, separated by commas.
# $operation limits the cases to one operation, $most the bytes of a block
sweep() {
    local gpus=$1 persona=$2 ranks=$3 cases=$4 memory=$5 packets=$6 variables=$7 proof=(-P) status=0
    shift 7
    # The engines of a communicator serve one device of a rank. Here some ranks have buffers on two devices.
    [ "$memory" != any ] || proof=()
    local -x EMU_SEED=$seed
    for variable in ${variables//,/ }; do
        local -x "${variable?}"
    done
    job $((60 + cases / 2)) "$gpus" "$persona" "$ranks" "$@" \
        "$build/test/mpi/sweep" -s "$seed" -n "$cases" -w 300 -m "$most" -D "$memory" "${proof[@]}" ${operation:+-o "$operation"} >"$work/out" 2>&1 ||
        status=$?
    grep -aE 'FAILED|passed|violation|coll/dma' "$work/out" | head -n 20
    [ $status = 0 ] && silent && made_of "$packets" "$ranks"
}

# row TITLE SWEEP'S ARGUMENTS
row() {
    seed=$((seed + 1)) number=$((number + 1))
    [ $number -lt "${rows%-*}" ] || [ $number -gt "${rows#*-}" ] || ok "$*" sweep "${@:1}"
}

# part_row NUMBER ROW'S ARGUMENTS: unless the whole is wanted, rows of other parts are left out
part_row() {
    local in=$1
    shift
    if [ "$part" = whole ] || [ $(((turn + part) % 4)) = "$in" ]; then
        row "$@"
    else
        seed=$((seed + 1)) number=$((number + 1))
    fi
}

unkind='EMU_DELAY_US=50,EMU_STALE_LOOKS=6,EMU_SLICE_US=3000'
# GPUs, persona, ranks, cases, memory, packets there must be, the node's variables, MCA parameters
# Queues of an older kernel cannot name engines, and so nothing is armed.
older=EMU_KFD_MINOR=16
row 2 mi250x 2 20 device - "$older"
row 3 mi300x 3 20 ranks - "$unkind,$older"
row 2 mi300x 5 12 device - "$unkind"
row 8 mi300x 8 8 device - ''
if stands_at thunk; then
    row 4 mi300x 4 12 device - "$unkind,EMU_ROCR_MINOR=31" --mca coll_dma_queues rocr
else
    row 4 mi300x 4 12 device - "$unkind,EMU_SVM=0" --mca coll_dma_queues kfd
fi
row 7 mi250x 7 5 any - ''
# Machines on which something does not work: no POLL, no odd engines.
row 4 mi100 4 12 device - "$unkind"
row 3 mi100 3 12 any - '' --mca coll_dma_gpu_variant halves
row 5 mi308x 5 10 device - ''

# Each variant by force, on nodes of both kinds, with all buffers in device memory and with kinds that change from call to
# call. An exchange consists of swap packets only if it is aligned; counts.sh checks that. Otherwise it consists of copies
# with polls between them, and only tests without armed programs can tell these apart.
# HIP copies a block with gaps row by row. On an engine that another queue waits on, each row can take a slice of its time, here
# 3 ms. A block of 65536 bytes has up to 16384 rows, and the call takes minutes. So $most is smaller where there is any memory
# and the slices are long.
while read -r variant queues packets gpus cases armed operation; do
    forced=(--mca coll_dma_gpu_variant "$variant" --mca coll_dma_gpu_queues "$queues")
    with=$older
    [ "$armed" != armed ] || with=EMU_KFD_MINOR=17
    part_row 0 "$gpus" mi300x "$gpus" 10 device "$packets" "$with" "${forced[@]}"
    part_row 1 $((gpus - 1)) mi250x $((gpus - 1)) 10 device "$packets" "$unkind,$older" "${forced[@]}"
    most=8192 part_row 2 "$gpus" mi300x "$gpus" "$cases" any "$packets" "$unkind,$with" "${forced[@]}"
    part_row 3 $((gpus - 1)) mi250x $((gpus - 1)) "$cases" any "$packets" "$older" "${forced[@]}"
    turn=$((turn + 1))
done <<'TABLE'
pcpy   0 copy      4 12 armed
bcst   0 broadcast 5 20 armed allgather
swap   0 poll      4 24 -     alltoall
halves 0 poll      4 24 -     alltoall
b2b    1 copy      3 12 armed
b2b    2 copy      6 12 -
TABLE

# Scratch memory and pinned memory that do not hold the larger calls: these go in pieces, with each engine.
small=(--mca coll_dma_scratch_bytes 200000 --mca coll_dma_pinned_bytes 600000)
operation=allgather # exchanges would need all of it for temporary memory of the engines
row 3 mi300x 3 16 any - "$unkind" "${small[@]}"
row 3 mi300x 3 16 any - '' "${small[@]}" --mca coll_dma_engine stream
finish
