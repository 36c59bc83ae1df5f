#!/bin/bash
# mutants.sh [BUILD [NAME...]]: are the tests on device memory awake? Breaks the component in ways that must not go unnoticed,
# one at a time, and runs a job on the emulated node that should notice: wrong bytes, a rule of the node, a hang, the host
# doing what engines should. Each job must pass without the mutant. Not part of ./check: it takes minutes.
#
# A mutant is test/device/mutants/NAME.sed: sed commands, and in comments
#     # file: what is changed
#     # run: sweep MEMORY RANKS PERSONA [MPIRUN-ARGS...] (as many GPUs as ranks, 2 for 5), or counts
# A mutant whose commands change nothing is stale: the code has moved on, and so must it.
set -uo pipefail
# shellcheck source=test/device/common.sh
. "$(dirname "$0")/common.sh"
shift
export EMU_NEW_THUNK=1 # only with it programs are armed
limit=${DMA_MUTANT_SECONDS:-60}
patience=1
killed=0 survived=() stale=()

# A build folder that has everything of the real one but the component.
tree=$work/tree scratch=$work/build
mkdir -p "$scratch/mca" "$tree"
cp -r "$root/include" "$root/ompi_coll_dma" "$tree"
ln -s "$build"/* "$scratch" 2>/dev/null
rm -rf "$scratch/mca"
mkdir "$scratch/mca"
# shellcheck source=/dev/null
. "$build/config/build.env"

# assemble FILE: the component, with FILE compiled from the changed tree and everything else as it was built
assemble() {
    local object objects=() file=${1%.c}
    gcc -std=gnu11 -O1 -g -w -fPIC -D_GNU_SOURCE -I"$tree/include" -I"$tree/ompi_coll_dma" -c "$tree/$1" \
        -o "$work/mutant.o" || return 1
    for object in "$build"/ompi_coll_dma/*/.libs/*.o "$build"/ompi_coll_dma/*/*/.libs/*.o; do
        [ "${object/\/.libs/}" = "$build/$file.o" ] || objects+=("$object")
    done
    gcc -shared -o "$scratch/mca/mca_coll_dma.so" "$work/mutant.o" "${objects[@]}" -pthread -ldl
}

# run WORDS...: 0 when the job sees nothing wrong
run() {
    local gpus=${3:-8} memory=${2:-} proof=(-P) build=$scratch
    [ "$gpus" != 5 ] || gpus=2
    [ "$memory" != any ] || proof=()
    if [ "$1" = counts ]; then
        job "$limit" 8 mi300x 8 --mca coll_dma_gpu_variant pcpy --mca coll_dma_armed_seconds 100 "$scratch/test/device/counts" allgather in persistent 7 7
    else
        job "$limit" "$gpus" "$4" "$3" "${@:5}" --mca coll_dma_timeout 5 "$scratch/test/mpi/sweep" -s 5 -n 25 -w 25 -m 65536 -D "$memory" \
            "${proof[@]}"
    fi >"$work/out" 2>&1 && silent
}

# The job of a mutant sees nothing wrong without it? Asked once per job.
declare -A passes
sound() { # WORDS...
    if [ -z "${passes[$*]:-}" ]; then
        ln -sf "$build/mca/mca_coll_dma.so" "$scratch/mca/mca_coll_dma.so"
        run "$@"
        passes[$*]=$?
        rm "$scratch/mca/mca_coll_dma.so"
    fi
    [ "${passes[$*]}" = 0 ]
}

mutate() {
    local name=$1 file words start
    file=$(sed -n 's/^# file: *//p' "$here/mutants/$name.sed")
    read -ra words < <(sed -n 's/^# run: *//p' "$here/mutants/$name.sed")
    if ! sound "${words[@]}"; then
        stale+=("$name")
        echo "$name: CANNOT TELL: fails unchanged: ${words[*]}"
        tail -n 5 "$work/out"
        return
    fi
    start=$SECONDS
    cp "$root/$file" "$tree/$file"
    sed -i -E -f "$here/mutants/$name.sed" "$tree/$file"
    if cmp -s "$root/$file" "$tree/$file" || ! assemble "$file"; then
        stale+=("$name")
        echo "$name: STALE"
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
    cp "$root/$file" "$tree/$file"
}

[ $# -gt 0 ] || set -- "$here"/mutants/*.sed
for name; do
    mutate "$(basename "$name" .sed)"
done
echo "killed $killed, survived ${#survived[@]}${survived:+ (${survived[*]})}, stale ${#stale[@]}${stale:+ (${stale[*]})}"
[ ${#survived[@]} = 0 ] && [ ${#stale[@]} = 0 ]
