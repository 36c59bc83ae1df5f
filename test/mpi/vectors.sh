#!/bin/bash
# vectors.sh [BUILD]: derived datatypes in collectives, in host memory and, on the emulated node, in device memory. There,
# the statistics of the engines show which were copied by strided packets.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=test/lib.sh
. "$root/test/lib.sh"
build=${1:-$root/build}
vectors=$build/test/mpi/vectors
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
launch=(mpirun --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 --mca coll dma)

# host RANKS ARG...
host() {
    timeout --kill-after=5 600 "$root/with-build" --build "$build" "${launch[@]}" -n "$1" "$vectors" "${@:2}"
}

# device PERSONA GPUS RANKS [NAME=VALUE]... ARG...: parameters of the component, then arguments. No rule of the node may be
# violated
device() {
    local persona=$1 gpus=$2 ranks=$3 params=()
    shift 3
    while [ $# -gt 0 ] && [[ $1 == *=* ]]; do
        params+=(--mca "coll_dma_${1%%=*}" "${1#*=}")
        shift
    done
    rm -rf "$work/log" "$work/stats"
    mkdir "$work/log" "$work/stats"
    EMU_LOG=$work/log EMU_STATS=$work/stats timeout --kill-after=5 1000 "$root/with-build" --build "$build" \
        --gpus "$gpus" --persona "$persona" "${launch[@]}" "${params[@]}" -n "$ranks" "$vectors" -d "$@" || return 1
    ! grep -r ^violation "$work/log"
}

# strided: how many strided packets the engines got, except one of each rank, which tries whether they work
strided() {
    awk -v ranks="$1" '$1 == "queue" { ours = !/libhsa/ } ours && / packet rect / { n += $NF } END { print n - ranks }' "$work"/stats/*
}

# goes_strided RANKS CMD...
goes_strided() {
    "${@:2}" && [ "$(strided "$1")" -gt 0 ]
}

# goes_other_ways RANKS CMD...: no engine is ever needed, so none has been tried
goes_other_ways() {
    "${@:2}" && [ "$(strided "$1")" -le 0 ]
}

ok 'host memory' host 3 -n 300
if [ ! -e "$build/test/emu/libnode.so" ]; then
    # shellcheck source=/dev/null
    . "$build/config/build.env"
    echo "device memory: there is no emulated node: ${dma_emu_missing:-it is not built}"
    finish
    exit
fi
ok 'two GPUs' goes_strided 2 device mi300x 2 2 -n 60
ok 'three GPUs' goes_strided 3 device mi250x 3 3 -n 40 -s 2
ok 'eight GPUs' goes_strided 8 device mi300x 8 8 -n 12 -s 3
ok 'two ranks on each of two GPUs' goes_strided 4 device mi250x 2 4 -n 30 -s 4
ok 'a queue for each peer' device mi300x 4 4 gpu_variant=pcpy -n 20 -s 5
ok 'one queue for all' device mi300x 4 4 gpu_variant=b2b -n 20 -s 6
ok 'two places at once' device mi300x 4 4 gpu_variant=bcst -n 20 -s 7
for op in 0 1 2 3; do
    ok "vectors to contiguous data, operation $op" goes_strided 2 device mi300x 2 2 -k 0,9 -o $op -n 4
    ok "contiguous data to columns, operation $op" goes_strided 2 device mi300x 2 2 -k 9,3 -o $op -n 4
    ok "blocks of a matrix to odd distances, operation $op" goes_strided 2 device mi300x 2 2 -k 8,1 -o $op -n 4
    ok "rows that run backwards, operation $op" goes_other_ways 2 device mi300x 2 2 -k 6,9 -b 60 -o $op -n 3
done
ok 'vectors that go on to gaps' goes_strided 2 device mi300x 2 2 -k 2,4 -o 2 -n 4
ok 'vectors of vectors' goes_strided 2 device mi300x 2 2 -k 5,9 -b 96 -o 0 -n 8
ok 'no shared memory' device mi300x 2 2 arena_bytes=0 -n 20 -s 10
ok 'no engine' goes_other_ways 2 device mi300x 2 2 engine=none -n 20 -s 8
ok 'packed inside the devices' goes_other_ways 2 device mi300x 2 2 engine=stream -n 60 -s 9
ok 'large rows of different lengths' goes_strided 2 device mi300x 2 2 -k 1,1 -b 600060 -o 2 -n 3
finish
