#!/bin/bash
# doors.sh [BUILD]: the emulated node at the kernel's door, below the installed ROCm and its own thunk (AMD's library, or the
# thunk in ROCr). ROCm finds the GPUs and HIP programs run. Collectives are right
#   - on queues from the kernel, on the queues that coll/dma chooses by default, and on the runtime's copies;
#   - with registered host memory at the process's own addresses and at others;
#   - with hidden GPUs;
#   - with kernels that cannot create a queue on a given engine;
#   - with queues that the driver evicts.
# If ROCm can do so, programs manage addresses themselves, and memory is passed to other processes as a dma-buf.
set -euo pipefail
# shellcheck source=test/device/common.sh
. "$(dirname "$0")/../device/common.sh"
bin=$build/test/emu
export EMU_DOOR=kernel

# agents PERSONA GPUS ISA: rocminfo lists that many GPUs
agents() {
    local found
    found=$(node 10 "$2" "$1" rocminfo | grep -Ec "^  Name: +$3 ")
    echo "$found agents"
    [ "$found" = "$2" ] && silent
}

hip() {
    node 20 "$2" "$1" "$bin/hip" && silent
}

# rectangles SEED CASE OPERATION ARGS...: a case of the sweep in which rectangles are copied from and to the inside of pinned or
# managed memory, for which HIP 5.7.1 needs the direction of the copy
rectangles() {
    job 60 3 $gpu 3 "${@:4}" "$build/test/mpi/sweep" -s "$1" -c "$2" -o "$3" -w 300 -m 65536 -D any >"$work/out" 2>&1 || {
        grep -aE 'FAILED|passed' "$work/out"
        return 1
    }
    silent
}

# calls NUMBER: prints how often the runtime has made this call on /dev/kfd in the last run, which had EMU_TRACE=1
calls() {
    cat "$work"/log/* | grep -c "^trace: ioctl $1 on /dev/kfd" || true
}

# dmabufs PERSONA GPUS: HIP programs run, and pass memory to another process as a dma-buf and not by AMD's own calls for IPC
dmabufs() {
    EMU_TRACE=1 HSA_ENABLE_IPC_MODE_LEGACY=0 hip "$1" "$2" || return
    echo "$(calls 0x24) exports and $(calls 0x1d) imports of a dma-buf; AMD's own: $(calls 0x81) and $(calls 0x80)"
    [ "$(calls 0x24)" -gt 0 ] && [ "$(calls 0x1d)" -gt 0 ] && [ "$(calls 0x81)" = 0 ] && [ "$(calls 0x80)" = 0 ]
}

# manages PERSONA GPUS: a program that manages addresses itself
manages() {
    node 20 "$2" "$1" "$bin/addresses" && silent
}

# evicted GPUS PERSONA CASES ARGS...: random collectives, while the driver often evicts the queues
evicted() {
    local n
    EMU_EVICT=2000 EMU_EVICT_US=4000 sweeps "$@" || return
    n=$(cat "$work"/stats/* | awk '$1 == "evictions" { n += $2 } END { print n + 0 }')
    echo "$n evictions"
    [ "$n" -gt "$1" ]
}

# collects GPUS PERSONA RANKS WHAT ARGS...: the data are right, and each rank reports that WHAT serves its device
collects() {
    job 20 "$1" "$2" "$3" --mca coll_dma_verbose 2 "${@:5}" "$bin/collective" >"$work/out" 2>&1 || {
        tail -n 20 "$work/out"
        return 1
    }
    grep -a 'is served by' "$work/out"
    [ "$(grep -ac "is served by the engine $4" "$work/out")" = "$3" ] && grep -aq 'data right' "$work/out" && silent
}

# sweeps GPUS PERSONA CASES ARGS...: random collectives, all of them on the engines
sweeps() {
    job $((60 + $3)) "$1" "$2" "$1" "${@:4}" "$build/test/mpi/sweep" -s 7 -n "$3" -w 300 -m 65536 -D device -P >"$work/out" 2>&1 || {
        tail -n 20 "$work/out"
        return 1
    }
    grep -aE 'FAILED|passed' "$work/out" && silent
}

# ROCm 5.2 does not know the MI300X, neither its instructions nor the size of the memory of a queue.
gpu=mi300x isa=gfx942
# shellcheck source=/dev/null
. "$build/config/build.env"
case " $dma_emu_doors " in
*' thunk '*) gpu=mi250x isa=gfx90a ;;
esac
kfd=(--mca coll_dma_queues kfd)

ok 'rocminfo lists 8 GPUs' agents $gpu 8 $isa
ok 'rocminfo lists 2 MI250X' agents mi250x 2 gfx90a
# shellcheck disable=SC2016
ok 'rocminfo does not list hidden GPUs' env EMU_HIDE=0 bash -c '[ "$("$@" | grep -Ec "^  Name: +gfx")" = 3 ]' - \
    "$root/with-build" --build "$build" --gpus 4 --persona $gpu rocminfo
ok 'HIP programs run' hip $gpu 2
EMU_SVM=0 ok 'HIP programs run where host memory has other addresses on GPUs' hip mi250x 2
ok 'rectangles in pinned memory' rectangles 22 9 alltoall
ok '... without engines and scratch memory' rectangles 22 9 alltoall --mca coll_dma_engine none --mca coll_dma_scratch_bytes 0
ok 'rectangles in managed memory' rectangles 36 0 allgather --mca coll_dma_engine stream
ok 'collectives on queues from the kernel' collects 4 $gpu 4 'sdma: queues from kfd, on engines by number' "${kfd[@]}"
ok 'collectives on queues of the default provider' collects 2 $gpu 2 'sdma: queues from kfd, on engines by number'
ok 'collectives on copies of the runtime' collects 2 mi250x 2 stream --mca coll_dma_engine stream
EMU_SVM=0 ok 'the same where host memory has other addresses on GPUs' collects 2 $gpu 2 'sdma: queues from kfd' "${kfd[@]}"
EMU_HIDE=0 ok 'the same with a hidden GPU' collects 3 $gpu 2 'sdma: queues from kfd' "${kfd[@]}"
EMU_KFD_MINOR=14 ok 'the same where queues cannot name their engine' collects 2 mi250x 2 'sdma: queues from kfd' "${kfd[@]}"
# ROCr 6 has the calls to manage addresses. From 6.4 on, where programs cannot use the thunk, ROCr can be configured to use
# dma-bufs instead of AMD's own calls for IPC.
status=0
"$bin/addresses" >/dev/null 2>&1 || status=$?
[ $status = 77 ] || ok 'a program manages addresses itself' manages $gpu 2
has_thunk || ok 'memory goes to other processes as a dma-buf' dmabufs $gpu 2
has_thunk || HSA_ENABLE_IPC_MODE_LEGACY=0 ok 'collectives on memory that came as a dma-buf' collects 2 $gpu 2 'sdma: queues from kfd' "${kfd[@]}"
ok 'random collectives while queues are evicted' evicted 2 $gpu 4 "${kfd[@]}"
ok 'random collectives' sweeps 3 $gpu 8 "${kfd[@]}"
finish
