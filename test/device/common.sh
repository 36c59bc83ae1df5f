# shellcheck shell=bash
# Shared by the scripts that test device memory under mpirun on the emulated node; sourced. Their first argument is the build
# folder. They make a node for every run.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${1:-$root/build}
build=$(cd "$build" && pwd)
# shellcheck source=test/lib.sh
. "$root/test/lib.sh"

# shellcheck source=/dev/null
. "$build/config/build.env"
if [ ! -e "$build/test/emu/libnode.so" ]; then
    skip "there is no emulated node: ${dma_emu_missing:-it is not built}"
fi

# stands_at DOOR: where the node of a run stands, unless told otherwise: in place of the thunk (thunk), or at the kernel's calls
# (kernel). Only there is a newer ROCr to be had.
stands_at() {
    [ "${EMU_DOOR:-${dma_emu_doors%% *}}" = "$1" ]
}

# has_thunk: ROCr uses a thunk that others can use, too
has_thunk() {
    stands_at thunk || { ldconfig -p || /sbin/ldconfig -p; } 2>/dev/null | grep 'libhsakmt\.so\.1' >/dev/null
}

# The providers of queues that work on this node, unless something is refused.
providers() {
    ! stands_at thunk || echo rocr
    echo kfd
}


# Two mpiruns of one user that begin at the same time can use the same session directory. So each suite of ./check has a
# folder for them.
[ ! -d "${DMA_SUITE_TMPDIR:-}" ] || export TMPDIR=$DMA_SUITE_TMPDIR
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The limits end only what hangs, however busy the machine is.
export patience=10

# node SECONDS GPUS PERSONA CMD...: CMD on a node of its own, with logs and statistics in $work. On an idle machine it takes
# less than SECONDS. After `patience` times as long, it is ended with everything that it has started.
node() {
    local seconds=$(($1 * patience)) gpus=$2 persona=$3
    shift 3
    rm -rf "$work/log" "$work/stats"
    mkdir "$work/log" "$work/stats"
    EMU_LOG=$work/log EMU_STATS=$work/stats timeout --kill-after=5 "$seconds" \
        "$root/with-build" --build "$build" --gpus "$gpus" --persona "$persona" "$@"
}

# job SECONDS GPUS PERSONA RANKS ARGS...: mpirun on such a node
job() {
    local ranks=$4
    node "$1" "$2" "$3" mpirun --oversubscribe --bind-to none -n "$ranks" --mca mpi_yield_when_idle 1 --mca coll dma \
        "${@:5}"
}

# arm_always: programs are armed wherever they can be, as if waiting took no time. For so few GPUs the built-in profile sees no gain.
arm_always() {
    sed -E 's/^(trigger|armed)_ps .*/\1_ps 0/' "$root/profiles/mi300x.txt" >"$work/armed-profile"
    export OMPI_MCA_coll_dma_gpu_profile=$work/armed-profile
}

# silent: no rule of the node was violated
silent() {
    ! grep -rh ^violation "$work/log"
}

# packets KIND: those of our queues, in all processes
packets() {
    cat "$work"/stats/* | awk -v kind="$1" '
        /^queue/ { ours = /owner mca_coll_dma/ }
        ours && $1 == "sdma" && $8 == "packet" && $9 == kind { n += $10 }
        END { print n + 0 }'
}
