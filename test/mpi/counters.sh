#!/bin/bash
# counters.sh: ompi_info and docs/user/counters.md list the counters as performance variables, and tools read them, for the
# process and for a communicator. Runs inside ./with-build.
# shellcheck disable=SC1091
set -uo pipefail
here=$(dirname "$0")
. "$here/../lib.sh"
. "$here/common.sh"

counters=$(program counters) || exit 1
build=${counters%/test/mpi/*}
table=$build/tools/counters_doc
document=$here/../../docs/user/counters.md
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMPI_MCA_coll=dma OMPI_MCA_mpi_yield_when_idle=1

documented() {
    "$table" "$document" | diff "$document" - || {
        echo 'docs/user/counters.md and the counters differ: run make -C build counters-doc'
        return 1
    }
}
ok 'the document and the counters agree' documented

ompi_info --param coll dma --level 9 | sed -n 's/.*performance "coll_dma_\([a-z0-9_]*\)".*/\1/p' | sort -u >"$work/listed"
ok 'ompi_info lists the counters' diff "$work/listed" <("$table" --names | sort)

ok 'handles bound to communicators' launch 30 2 "$counters"
ok 'the example' launch 30 2 "$build/examples/counters"

# tool NAME=VALUE... -- ARGS...: 2 ranks of a program under a tool. The sum of each counter over the ranks is VALUE, or at
# least 1 if VALUE is +
tool() {
    local wanted=() want sum
    while [ "$1" != -- ]; do
        wanted+=("$1")
        shift
    done
    shift
    rm -rf "$work/read" && mkdir "$work/read"
    launch 60 2 -x DMA_TEST_COUNTERS="$work/read" -x LD_PRELOAD="$build/test/mpi/libcounters_shim.so" "$@" || return 1
    for want in "${wanted[@]}"; do
        sum=$(cat "$work"/read/* | awk -v name="${want%%=*}" '$1 == name { n += $2 } END { print n + 0 }')
        echo "${want%%=*} $sum"
        if [ "${want#*=}" = + ]; then [ "$sum" -gt 0 ]; else [ "$sum" = "${want#*=}" ]; fi || {
            cat "$work"/read/*
            return 1
        }
    done
}
ok 'a tool beside the example' tool calls_blocking_allgather=10 bytes_cores=80 setups=2 variant_host_line=10 -- \
    "$build/examples/counters"
ok 'not served: the module below' tool calls_blocking_allgather=+ calls_below=+ bytes_cores=0 -- \
    --mca coll_dma_arena_bytes 0 "$build/examples/allgather_check"

# Communicators that coll/dma leaves to others when they are made: those after MPI_COMM_WORLD, which is made before the tool
# begins. allcoll makes intercommunicators, and some that span two jobs.
allcoll=$(program allcoll) && prefer=$(program prefer) || exit 1
ok 'left out: the priority' tool reason_comm_off=2 calls_blocking_allgather=0 -- --mca coll_dma_priority -1 "$prefer" basic
ok 'left out: two groups, and two jobs' tool reason_comm_kind=+ -- "$allcoll" --spawn 2
ok 'left out: nothing below' tool reason_comm_below=2 -- "$prefer" tuned,libnbc
# The second rank has loaded coll/dma, and the tool.
second=(-n 1 -x DMA_TEST_COUNTERS="$work/read" -x LD_PRELOAD="$build/test/mpi/libcounters_shim.so" "$prefer" basic)
without_first() {
    mkdir -p "$work/read" && rm -f "$work"/read/*
    launch 60 1 -x OMPI_MCA_coll=^dma "$prefer" basic : "${second[@]}" && cat "$work"/read/* | tee "$work/sums" &&
        grep -q '^reason_comm_not_loaded [1-9]' "$work/sums"
}
ok 'left out: rank 0 has not loaded it' without_first
finish
