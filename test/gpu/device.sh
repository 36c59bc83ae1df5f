#!/bin/bash
# device.sh: the table of HIP's calls, and the random sweep on device memory, on a node with GPUs, real or emulated. Each
# engine, 2 to 4 ranks, all buffers or half of them on the device, every way of the stream engine to copy the own block.
# device.sh BUILD runs it on an emulated node, if there is one. Inside ./with-build it runs on the GPUs of the machine.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
if [ -z "${DMA_TEST_BIN:-}" ]; then
    build=${1:-$here/../../build}
    if [ ! -e "$build/test/emu/libnode.so" ]; then
        # shellcheck source=/dev/null
        . "$build/config/build.env"
        echo "there is no emulated node: ${dma_emu_missing:-it is not built}"
        exit 77
    fi
    exec "$here/../../with-build" --build "$build" --gpus 4 "$0"
fi
# shellcheck source=test/mpi/common.sh
. "$here/../mpi/common.sh"
sweep=$(program sweep) || exit 1
log=$(mktemp)
trap 'rm -f "$log"' EXIT
[ -z "${EMU_SYSFS:-}" ] || export OMPI_MCA_coll_dma_sysfs=$EMU_SYSFS

# sweep_run RANKS CASES PERCENT ENGINE [MPIRUN-ARGS...]
sweep_run() {
    local ranks=$1 cases=$2 percent=$3 engine=$4
    shift 4
    launch 60 "$ranks" --mca pml ob1 --mca mpi_yield_when_idle 1 --mca coll dma --mca coll_dma_engine "$engine" \
        --mca coll_dma_verbose 2 --mca coll_dma_arena_bytes 67108864 "$@" \
        "$sweep" -s "$((ranks * 100 + percent))" -n "$cases" -d "$percent" -w 500 </dev/null >"$log" 2>&1 &&
        grep -q "served by the engine $engine" "$log"
    local status=$?
    verdict "$cases cases, $ranks ranks, $percent % on the device, engine $engine $*" $status
    [ $status = 0 ] || grep -E '^sweep:|passed' "$log" | head -n 5
}

# The node emulates HIP: every call of its table, and that HIP has released what was closed.
if [ -n "${EMU_SYSFS:-}" ]; then
    timeout $((60 * patience)) "$(program ../gpu/runtime_check)" hip 0 1 >"$log" 2>&1
    verdict "every call of HIP's table" $?
    grep FAIL "$log"
fi
sweep_run 2 20 100 stream
sweep_run 4 15 50 stream
sweep_run 3 15 100 stream --mca coll_dma_own_copy echo
sweep_run 3 10 100 stream --mca coll_dma_own_copy graph
sweep_run 2 10 50 stream --mca coll_dma_own_copy copy
sweep_run 2 15 100 sdma
sweep_run 4 10 50 sdma
finish
