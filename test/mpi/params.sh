#!/bin/bash
# params.sh: every MCA parameter is known to ompi_info and to docs/parameters.md, and does something. Runs inside
# ./with-build.
# shellcheck disable=SC1091
set -uo pipefail
here=$(dirname "$0")
. "$here/../lib.sh"
. "$here/common.sh"

late=$(program late) || exit 1
docs=$here/../../docs/parameters.md
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export OMPI_MCA_coll=dma OMPI_MCA_mpi_yield_when_idle=1

# with NAME=VALUE... -- ARGS...: two ranks of `late` with these parameters
with() {
    local mca=()
    while [ "$1" != -- ]; do
        mca+=(--mca "coll_dma_${1%%=*}" "${1#*=}")
        shift
    done
    shift
    launch 30 2 "${mca[@]}" "$late" "$@"
}

# quiet CMD...: the data are right, and nothing else is said
quiet() {
    local output
    output=$("$@" 2>&1) || { echo "$output"; return 1; }
    echo "$output"
    [ "$output" = 'late: data right' ]
}

ready='communicator .*: 2 ranks, ready'
listed=$(ompi_info --param coll dma --level 9 --parsable | sed -n 's/^mca:coll:dma:param:coll_dma_\([a-z_]*\):value:.*/\1/p' |
    sort -u)
# shellcheck disable=SC2016
documented=$(sed -n 's/^| `coll_dma_\([a-z_]*\)` .*/\1/p' "$docs" | sort)
ok 'ompi_info lists parameters' test -n "$listed"
ok 'ompi_info and the table agree' diff <(echo "$listed") <(echo "$documented")

# default NAME VALUE: the table's default is the real one
default() {
    local real shown
    real=$(ompi_info --param coll dma --level 9 --parsable | sed -n "s/^mca:coll:dma:param:coll_dma_$1:value://p" |
        sed 's/\(\.[0-9]*[1-9]\)0*$/\1/; s/\.0*$//')
    shown=$(sed -n "s/^| \`coll_dma_$1\` | \([^|]*\) |.*/\1/p" "$docs" | tr -d ' `')
    echo "$1: '$real' in ompi_info, '$shown' in the table"
    [ "$real" = "${shown/none/}" ]
}
for name in $listed; do
    ok "$name: default" default "$name"
done

ok 'verbose: silent without' quiet with -- 0
ok 'verbose: 1' says "$ready" with verbose=1 -- 0
ok 'verbose: 2' says 'host_line cannot do 4096 bytes' with verbose=2 variant=host_line -- 0 4096
ok 'priority: negative, not used' quiet with verbose=1 priority=-1 -- 0
ok 'priority: under tuned, not used' quiet with verbose=1 priority=5 -- 0
ok 'priority: above' says "$ready" with verbose=1 priority=100 -- 0
ok 'arena_bytes: 0, left to others' says 'aside: ' with verbose=1 arena_bytes=0 -- 0
ok 'variant: one that fits' quiet with variant=host_slot -- 0 1024
ok 'variant: unknown' says 'there is no variant "nosuch"' with variant=nosuch -- 0
ok 'variant: unknown, works' says 'data right' with variant=nosuch -- 0
ok 'profile: missing' says 'profile .*nosuch cannot be used' with profile="$scratch/nosuch" -- 0
ok 'slot_bytes: too small for the block' says 'host_slot cannot do 4096 bytes' \
    with verbose=2 variant=host_slot slot_bytes=1024 -- 0 4096
ok 'slot_bytes: large enough' quiet with verbose=0 variant=host_slot slot_bytes=8192 -- 0 4096
ok 'cross_memory: 0, never' says 'host_reach cannot do 65536 bytes' \
    with verbose=2 variant=host_reach cross_memory=0 -- 0 65536
for name in ring_depth=4 ring_depth=64 chunk_bytes=4096 chunk_bytes=131072 chunk_depth=2 chunk_depth=16; do
    ok "$name" quiet with variant=host_pipe $name -- 0 300000
done
ok 'warn: says who is late' says 'rank 0 has waited .* for rank 1, which has not entered it; it waits on' with warn=0.2 -- 1
ok 'warn: and waits on' says 'data right' with warn=0.2 -- 1
ok 'warn: 0, silent' quiet with warn=0 -- 1
ok 'gpu_variant: unknown' says 'there is no variant "host_line" for device memory' with gpu_variant=host_line -- 0
ok 'gpu_profile: missing' says 'profile .*nosuch cannot be used' with gpu_profile="$scratch/nosuch" -- 0
# on_node NAME=VALUE...: collectives in device memory on an emulated node
on_node() {
    local mca=()
    for param; do
        mca+=(--mca "coll_dma_${param%%=*}" "${param#*=}")
    done
    timeout --kill-after=5 $((40 * ${patience:?})) "$here/../../with-build" --build "${DMA_TEST_EMU%/test/emu}" --gpus 2 \
        mpirun --oversubscribe --bind-to none -n 2 "${mca[@]}" "$DMA_TEST_EMU/collective"
}
if [ -e "${DMA_TEST_EMU:-}/collective" ]; then
    ok 'queues: auto' says 'engine sdma: queues from thunk' on_node verbose=2
    ok 'queues: kfd' says 'engine sdma: queues from kfd' on_node verbose=2 queues=kfd
    ok 'queues: unknown' says 'there is no queue provider "nosuch"' on_node engine=sdma queues=nosuch
fi
ok 'entry_timeout: gives up' says 'late: error class' with entry_timeout=0.3 -- 2
ok 'entry_timeout: 0, waits' quiet with -- 1
finish
