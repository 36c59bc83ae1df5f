#!/bin/bash
# across.sh [BUILD [SEED [CASES]]]: device memory between hosts that have emulated GPUs. The random sweep: all ranks on the
# device, some, or any kind of memory for each buffer; even and uneven placement; with delay and loss. Also the way of the
# bytes, from the statistics of the nodes. Runs inside ./with-build.
set -uo pipefail
# shellcheck source=test/device/common.sh
. "$(dirname "$0")/common.sh"
seed=${2:-1} cases=${3:-10}
# shellcheck source=test/bed/lib.sh
. "$root/test/bed/lib.sh"
needs_hosts
# Each host has a /tmp of its own.
rmdir "$work"
work=$(mktemp -d "$build/test/device/across.XXXXXX")

# hosts BED-OPTIONS... -- CMD...: with logs of their own
hosts() {
    rm -rf "$work/log"
    mkdir "$work/log"
    EMU_LOG=$work/log EMU_SEED=$seed "$root/test/bed/bed" 2 --gpus 2 --persona mi300x "$@"
}

# sweep SEED MEMORY BED-OPTIONS MPIRUN-ARGS...: pieces are small, so that small blocks have several. What UCX and the system
# say about connections is kept for the case that one ends, and which ranks wait for which for the case that one hangs.
sweep() {
    local seed=$1 memory=$2 options
    read -ra options <<<"$3"
    shift 3
    hosts "${options[@]}" -- mpirun "$@" --mca mpi_yield_when_idle 1 --mca coll dma --mca coll_dma_net_chunk_bytes 4096 \
        --mca coll_dma_warn 10 --mca coll_dma_net_first_calls $((seed % 2)) -x UCX_LOG_LEVEL=diag "$build/test/mpi/sweep" \
        -s "$seed" -n "$cases" -w 300 -m 262144 -D "$memory" && silent
}

# Calls that go to others because they are the first of their communicator: through host memory, and the cores. A line says so.
first_calls() {
    local output
    output=$(hosts -- mpirun -n 4 --map-by ppr:2:node --mca mpi_yield_when_idle 1 --mca pml ob1 \
        --mca coll dma --mca coll_dma_net_first_calls 1 "$build/test/bed/first_calls" forms -d 2>&1)
    printf '%s\n' "$output"
    grep -Eq '^forms: [0-9]+ checks, 0 failed$' <<<"$output" &&
        [ "$(grep -c 'its first collectives, some of them in device memory, go to the next' <<<"$output")" = 1 ] && silent
}

# The engines write to other GPUs and to host memory what they must and no more. Messages are copied while earlier ones
# travel: about half of them, and some on a loaded machine. With a rendezvous, a message travels until its receiver has it;
# without one, until a buffer of the system has it, which takes less time than the next copy.
ways() {
    local output
    output=$(hosts -r 1gbit -- mpirun -n 4 --map-by ppr:2:node --mca mpi_yield_when_idle 1 --mca coll dma --mca coll_dma_verbose 2 \
        --mca coll_dma_net_chunk_bytes 65536 -x UCX_RNDV_THRESH=16k "$build/test/device/across" 2097157 2>&1)
    local status=$?
    printf '%s\n' "$output"
    awk '/messages through slots/ && /WORLD/ {
            ranks++
            match($0, /[0-9]+ messages/)
            all += substr($0, RSTART)
            match($0, /[0-9]+ copied/)
            beside += substr($0, RSTART)
        }
        END {
            print ranks + 0 " ranks, " all + 0 " messages, " beside + 0 " copied while others travelled"
            exit !(ranks == 4 && beside > all / 10)
        }' <<<"$output" && [ $status = 0 ] && silent
}

ok 'the ways of the bytes, memory, overlap' ways
ok 'first calls' first_calls
ok 'sweep: device memory' sweep $((seed + 1)) device '' -n 4 --map-by ppr:2:node
ok 'sweep: device memory on some ranks, uneven' sweep $((seed + 2)) ranks '' -n 3 --host h0:2,h1:1
ok 'sweep: any memory, ranks in turn, delay and loss' sweep $((seed + 3)) any '-d 200 -l 3' -n 4 --map-by node
ok 'sweep: any memory, a rank each' sweep $((seed + 4)) any '' -n 2 --map-by ppr:1:node
finish
