#!/bin/bash
# params.sh: ompi_info and docs/user/parameters.md know every MCA parameter, and each parameter refuses wrong values and has
# an effect. Runs inside ./with-build.
# shellcheck disable=SC1091
set -uo pipefail
here=$(dirname "$0")
. "$here/../lib.sh"
. "$here/common.sh"

late=$(program late) || exit 1
table=${DMA_TEST_BIN%/test/mpi}/tools/params_doc
document=$here/../../docs/user/parameters.md
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

# quiet CMD...: the data are right, and nothing else is printed
quiet() {
    local output
    output=$("$@" 2>&1) || { echo "$output"; return 1; }
    echo "$output"
    [ "$output" = 'late: data right' ]
}

ready='communicator .*: 2 ranks, ready'

# documented: the table in the document is made from the table in the source
documented() {
    "$table" "$document" | diff "$document" - || {
        echo 'docs/user/parameters.md and include/dma/params_table.h differ: run make -C build params-doc'
        return 1
    }
}
ok 'the document and the table agree' documented

ompi_info --param coll dma --level 9 --parsable |
    sed -n 's/^mca:coll:dma:param:coll_dma_\([a-z_]*\):value:/\1 /p' | sort -u >"$scratch/listed"
ok 'ompi_info lists parameters' test -s "$scratch/listed"
ok 'ompi_info and the table agree, also about defaults' diff "$scratch/listed" <("$table" --defaults | sort)

# The parameters for users are those that ompi_info shows without a level.
levels() {
    local level
    for level in 1 5; do
        ompi_info --param coll dma --level $level --parsable |
            sed -n 's/^mca:coll:dma:param:coll_dma_\([a-z_]*\):level:/\1 /p' >"$scratch/level$level"
    done
    cat "$scratch"/level?
    grep -q '^engine 1$' "$scratch/level1" && grep -q '^verbose 1$' "$scratch/level1" && ! grep -q '^variant' "$scratch/level1" &&
        grep -q '^variant 5$' "$scratch/level5" && grep -q '^engine 1$' "$scratch/level5" && ! grep -q '^sysfs' "$scratch/level5"
}
ok 'ompi_info lists by level' levels
ok 'ompi_info says which names are allowed' says '\(one of auto, .*host_pipe' ompi_info --param coll dma --level 9 --parsable
ok 'ompi_info says which numbers are allowed' says 'which rank it waits for.*\(a number from 0 to 1000000\)' \
    ompi_info --param coll dma --parsable

# refused NAME=VALUE...: for each of them one line says that the default is used, and the collective works
refused() {
    local output param missing=0
    output=$(with "$@" -- 0 2>&1)
    echo "$output"
    for param; do
        grep -cE "coll_dma_${param%%=*} is \"${param#*=}\", which is not .*: the default, .*, is used instead" <<<"$output" |
            grep -qx 1 || {
            echo "no line, or several, for $param"
            missing=1
        }
    done
    [ $missing = 0 ] && grep -qxF 'late: data right' <<<"$output"
}

# Wrong values of every numeric parameter, one for each parameter in a run: below and above its bounds, and values that Open
# MPI's own parsers read as something else.
below=() above=() negative=() wraps=() garbage=()
while read -r name _ least most zero _; do
    low=$(awk -v n="$least" 'BEGIN { printf "%.15g", n - 1 }')
    [ "$zero$low" = 10 ] || below+=("$name=$low")
    above+=("$name=$(awk -v n="$most" 'BEGIN { printf "%.15g", n + 1 }')")
    [ "${least#-}" != "$least" ] || negative+=("$name=-1")
    wraps+=("$name=18446744073709550616")
    garbage+=("$name=garbage")
done < <("$table" --numbers)
ok 'the table has numbers' test ${#garbage[@]} -gt 15
ok 'numbers: below' refused "${below[@]}"
ok 'numbers: above' refused "${above[@]}"
ok 'numbers: -1' refused "${negative[@]}"
ok 'numbers: 2^64 - 1000' refused "${wraps[@]}"
ok 'numbers: garbage' refused "${garbage[@]}"
ok 'names: unknown' refused variant=nosuch gpu_variant=nosuch net_variant=nosuch engine=nosuch queues=nosuch own_copy=nosuch
ok 'verbose: silent without' quiet with -- 0
ok 'verbose: 1' says "$ready" with verbose=1 -- 0
ok 'verbose: 2' says 'host_line cannot do 4096 bytes' with verbose=2 variant=host_line -- 0 4096
ok 'priority: negative, not used' quiet with verbose=1 priority=-1 -- 0
ok 'priority: under tuned, not used' quiet with verbose=1 priority=5 -- 0
ok 'priority: above' says "$ready" with verbose=1 priority=100 -- 0
ok 'arena_bytes: 0, left to others' says 'not served: ' with verbose=1 arena_bytes=0 -- 0
ok 'variant: one that fits' quiet with variant=host_slot -- 0 1024
ok 'profile: missing' says 'profile .*nosuch cannot be used' with profile="$scratch/nosuch" -- 0
ok 'slot_bytes: too small for the block' says 'host_slot cannot do 4096 bytes' \
    with verbose=2 variant=host_slot slot_bytes=1024 -- 0 4096
ok 'slot_bytes: large enough' quiet with verbose=0 variant=host_slot slot_bytes=8192 -- 0 4096
ok 'cross_memory: 0, never' says 'host_reach cannot do 65536 bytes' \
    with verbose=2 variant=host_reach cross_memory=0 -- 0 65536
for name in ring_depth=4 ring_depth=64 chunk_bytes=4096 chunk_bytes=131072 chunk_depth=2 chunk_depth=16; do
    ok "$name" quiet with variant=host_pipe $name -- 0 300000
done
ok 'warn: says who is late' says 'rank 0 has waited .* for rank 1, which has not entered it; it waits on' with warn=0.2 -- 'has waited'
ok 'warn: and waits on' says 'data right' with warn=0.2 -- 'has waited'
ok 'warn: 0, silent' quiet with warn=0 -- 1
ok 'gpu_variant: one for host memory' refused gpu_variant=host_line
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
    ok 'queues: auto' says 'engine sdma: queues from kfd' on_node verbose=2
    ok 'queues: kfd' says 'engine sdma: queues from kfd' on_node verbose=2 queues=kfd
    ok 'queues: a provider that there is no more' says 'is "thunk", which is not one of auto, rocr, kfd' on_node queues=thunk
    ok 'queues: rocr' says 'sdma does not serve device .: rocr: ' on_node verbose=2 queues=rocr
fi
ok 'entry_timeout: gives up' says 'late: error class' with entry_timeout=0.3 -- returned
ok 'entry_timeout: 0, waits' quiet with -- 1
finish
