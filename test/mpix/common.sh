# shellcheck shell=bash
# Shared by the scripts that test libmpix_dma; sourced. They get the build folder as their first argument.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${1:-$root/build}
build=$(cd "$build" && pwd)
# shellcheck source=test/lib.sh
. "$root/test/lib.sh"
# If two mpiruns of one user begin at the same time, one can use the session directory of the other. So every suite of ./check
# has a folder of its own.
[ ! -d "${DMA_SUITE_TMPDIR:-}" ] || export TMPDIR=$DMA_SUITE_TMPDIR
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export MPIX_DMA_VERBOSE=1 OMPI_MCA_mpi_yield_when_idle=1
component=dma
# Enough connections for all streams of a test, so that no stream is behind one that waits.
connections=32 waiting=8
# Further arguments of mpirun.
parameters=()

# A factor for time limits, so that they end only jobs that hang, also on a busy machine.
patience=10

# job SECONDS RANKS PROGRAM KIND ARGS...: runs a test program with queues of this KIND; hip: on an emulated node
job() {
    local node=() environment=()
    [ "$4" != hip ] || node=(--gpus 4 --persona mi300x)
    environment=(env ${waiting:+"MPIX_DMA_WAITING_STREAMS=$waiting"})
    if [ "$4" = hip ]; then
        rm -rf "$work/log" && mkdir "$work/log"
        environment+=("GPU_MAX_HW_QUEUES=${connections:-4}" "EMU_LOG=$work/log")
    elif [ "$4" = cuda ]; then
        environment+=("LD_LIBRARY_PATH=$build/test/mpix/fake${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
            ${connections:+"CUDA_DEVICE_MAX_CONNECTIONS=$connections"})
    fi
    timeout --kill-after=5 $(($1 * patience)) "$root/with-build" --build "$build" "${node[@]}" "${environment[@]}" \
        mpirun --oversubscribe --bind-to none -n "$2" --mca coll "$component" "${parameters[@]}" ${library:+-x LD_PRELOAD="$library"} \
        "$build/test/mpix/$3" "${@:4}" 2>&1
}
