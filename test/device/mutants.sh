#!/bin/bash
# mutants.sh [BUILD [NAME...]]: do the tests on device memory notice faults? Breaks the component, one fault at a time, and
# runs a job on the emulated node that must notice: wrong bytes, a violated rule of the node, a hang, or copies by the host
# that engines should make. Each job must pass without the mutant. Not part of ./check, because it takes minutes.
#
# The mutants are in mutants.txt, in the format of test/mutants (see the README there), with one difference: a mutant has no
# unit tests, because its fault needs a whole node. It has a job instead, one of
#     job      sweep MEMORY RANKS PERSONA [MPIRUN-ARGS...]     (as many GPUs as ranks, 2 for 5)
#     job      counts
#     job      armed [MPIRUN-ARGS...]     partitions that engines wait for, which are never taken back from them
#     job      taken                      the same, which are
#     job      cuda MEMORY RANKS [MPIRUN-ARGS...]     the sweep with the fake CUDA, without a node
# `test/mutants/run.sh BUILD --stale` also checks that these mutants apply.
set -uo pipefail
# shellcheck source=test/device/common.sh
. "$(dirname "$0")/common.sh"
arm_always
shift
limit=${DMA_MUTANT_SECONDS:-60}
patience=1
killed=0 survived=() stale=()

# A build folder that has everything of the real one except the component.
tree=$work/tree scratch=$work/build
mkdir -p "$scratch/mca" "$tree"
cp -r "$root/include" "$root/ompi_coll_dma" "$tree"
ln -s "$build"/* "$scratch" 2>/dev/null
rm -rf "$scratch/mca"
mkdir "$scratch/mca"
# shellcheck source=/dev/null
. "$build/config/build.env"

mutate=$work/mutate
gcc -std=gnu11 -D_GNU_SOURCE -O1 -w -o "$mutate" "$root"/test/mutants/*.c || exit 1

# assemble FILE...: the component as make links it, with the files compiled from the changed tree
assemble() {
    local file objects=()
    for file; do
        gcc -std=gnu11 -O1 -g -w -fPIC -D_GNU_SOURCE -I"$tree/include" -I"$tree/ompi_coll_dma" -c "$tree/$file" \
            -o "$work/${file//\//_}.o" || return 1
        objects+=("$work/${file//\//_}.o")
    done
    gcc -shared -o "$scratch/mca/mca_coll_dma.so" "${objects[@]}" "$build"/ompi_coll_dma/component/.libs/*.o \
        "$build/.libs/libdma_core.a" -pthread -ldl
}

# run WORDS...: 0 if the job finds no error
run() {
    local gpus=${3:-8} memory=${2:-} proof=(-P) build=$scratch
    [ "$gpus" != 5 ] || gpus=2
    [ "$memory" != any ] || proof=()
    if [ "$1" = armed ]; then
        job "$limit" 3 mi300x 3 --mca coll_dma_prelaunch 8 --mca coll_dma_armed_seconds 100000 --mca coll_dma_parts_patience 100000 \
            "${@:2}" "$scratch/test/mpix/armed" hip multiple 1 50
    elif [ "$1" = cuda ]; then
        rm -rf "$work/log" && mkdir "$work/log"
        DMA_TEST_GPU=cuda timeout --kill-after=5 "$limit" "$root/with-build" --build "$scratch" \
            env LD_LIBRARY_PATH="$build/test/mpix/fake${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
            mpirun --oversubscribe --bind-to none -n "$3" --mca mpi_yield_when_idle 1 --mca coll dma "${@:4}" \
            "$scratch/test/mpi/sweep" -s 5 -n 60 -w 25 -m 65536 -D "$2" -P
    elif [ "$1" = taken ]; then
        job "$limit" 2 mi300x 2 --mca coll_dma_prelaunch 8 "$scratch/test/mpix/parts" hip device serialized 500001 8
    elif [ "$1" = counts ]; then
        job "$limit" 8 mi300x 8 --mca coll_dma_gpu_variant pcpy --mca coll_dma_armed_seconds 100 "$scratch/test/device/counts" allgather in persistent 7 7
    else
        job "$limit" "$gpus" "$4" "$3" "${@:5}" --mca coll_dma_timeout 5 "$scratch/test/mpi/sweep" -s 5 -n 25 -w 25 -m 65536 -D "$memory" \
            "${proof[@]}"
    fi >"$work/out" 2>&1 && silent
}

# Does the job of a mutant pass without it? Asked once per job.
declare -A passes
sound() { # WORDS...
    if [ -z "${passes[$*]:-}" ]; then
        assemble && run "$@"
        passes[$*]=$?
    fi
    [ "${passes[$*]}" = 0 ]
}

mutant() {
    local name=$1 file files words start
    read -ra words < <("$mutate" list "$here/mutants.txt" | sed -n "s/^$name [^ ]* [^ ]* //p")
    if ! sound "${words[@]}"; then
        stale+=("$name")
        echo "$name: CANNOT TELL: fails unchanged: ${words[*]}"
        tail -n 5 "$work/out"
        return
    fi
    start=$SECONDS
    if ! "$mutate" apply "$root" "$tree" "$name" "$here/mutants.txt" >"$work/files"; then
        stale+=("$name")
        echo "$name: STALE"
        return
    fi
    mapfile -t files <"$work/files"
    if ! assemble "${files[@]}"; then
        stale+=("$name")
        echo "$name: INVALID"
    elif run "${words[@]}"; then
        survived+=("$name")
        echo "$name: SURVIVED ${words[*]}"
    else
        killed=$((killed + 1))
        echo "$name: killed in $((SECONDS - start)) s: $(
            { grep -rhoE '^violation: [a-z-]+' "$work/log"; grep -aoE 'first wrong byte|hangs for|were the engines. to do, which|has rung a doorbell|has failed: [a-z ]+' "$work/out"; } |
                sort | uniq -c | sort -rn | head -n 1
        )"
    fi
    for file in "${files[@]}"; do
        cp "$root/$file" "$tree/$file"
    done
}

# shellcheck disable=SC2046
[ $# -gt 0 ] || set -- $("$mutate" list "$here/mutants.txt" | sed 's/ .*//')
for name; do
    mutant "$name"
done
echo "killed $killed, survived ${#survived[@]}${survived:+ (${survived[*]})}, stale ${#stale[@]}${stale:+ (${stale[*]})}"
[ ${#survived[@]} = 0 ] && [ ${#stale[@]} = 0 ]
