#!/bin/bash
# cuda.sh [BUILD [SEED [CASES]]]: collectives in CUDA's device memory, over coll/dma's own route and the engine `stream`, in jobs
# of several processes with the fake CUDA (test/mpix/fake_cuda.c): the random sweep, in which counters and the words that streams
# have written prove that the engine carried out the calls; every way to copy the own block; host memory on some ranks; buffers
# that change their kind; streams that share a connection. Before, what the fake CUDA itself refuses.
set -uo pipefail
# shellcheck source=test/mpix/common.sh
. "$(dirname "$0")/../mpix/common.sh"
seed=${2:-1} cases=${3:-30}
library=$build/test/mpix/fake/libcuda.so.1

# fake [CONNECTIONS]
fake() {
    env ${1:+"DMA_FAKE_CUDA_CONNECTIONS=$1"} timeout $((20 * patience)) "$build/test/mpix/fake_check" "$library"
}

# cuda RANKS PROGRAM ARGS... [-- MPIRUN-ARGS...]
cuda() {
    local ranks=$1 program=$2 args=()
    shift 2
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        args+=("$1")
        shift
    done
    DMA_TEST_GPU=cuda timeout --kill-after=5 $((60 * patience)) "$root/with-build" --build "$build" \
        env LD_LIBRARY_PATH="$build/test/mpix/fake${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
        mpirun --oversubscribe --bind-to none -n "$ranks" --mca coll dma "${@:2}" "$build/test/$program" "${args[@]}"
}

# sweep RANKS MEMORY MPIRUN-ARGS...
sweep() {
    local ranks=$1 memory=$2 proof=(-P)
    shift 2
    # The engines of a communicator serve one device of a rank. Here some ranks have buffers on two devices.
    [ "$memory" != any ] || proof=()
    cuda "$ranks" mpi/sweep -s "$seed" -n "$cases" -w 300 -m 65536 -D "$memory" "${proof[@]}" -- "$@"
}

# row TITLE SWEEP'S ARGUMENTS
row() {
    seed=$((seed + 1))
    ok "$1, ${2} ranks" sweep "${@:2}"
}

ok 'the fake CUDA refuses and blocks what CUDA does' fake
for n in 1 2; do
    ok "the fake CUDA: streams that share connections: $n" fake $n
done
ok 'calls in device memory run the variant of engines' says '^allgather 100000 pcpy$' cuda 2 device/ran device allgather out 1000 100000
ok 'a call that engines do not carry out is noticed' refuses "were the engines' to do, which have counted 0" \
    cuda 2 mpi/sweep -n 4 -D device -P -- --mca coll_dma_engine sdma
for ranks in 2 3 4; do
    row 'all buffers on the device' $ranks device
done
for own in echo graph copy; do
    row "own blocks by $own" 3 device --mca coll_dma_own_copy $own
done
row 'some ranks on the device' 4 ranks
row 'buffers of any kind' 3 any
# Scratch memory and pinned memory that do not hold the larger calls: these go in pieces.
row 'calls in pieces' 3 any --mca coll_dma_scratch_bytes 200000 --mca coll_dma_pinned_bytes 600000
DMA_FAKE_CUDA_CONNECTIONS=1 row 'all streams on one connection' 3 device
ok 'queues of streams, 3 ranks' says '^rounds: .* 0 wrong$' job 60 3 rounds cuda device multiple free "$seed" 40
finish
