#!/bin/bash
# queues.sh: tests the providers of the sdma engine's queues (docs/dev/hardware.md) with collectives in device memory on the
# emulated
# node: ROCr's interface and the kernel's; the types of the queues; messages if there are none; forked children.
set -euo pipefail
# shellcheck source=test/device/common.sh
. "$(dirname "$0")/../device/common.sh"
stands_at thunk || skip 'ROCm has no thunk here that the emulated node knows how to replace'
bin=$build/test/emu
# In the environment, because some commands start jobs themselves.
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_coll=dma

# collectives GPUS PERSONA [NAME=VALUE...] [-- ARGS...]: runs `collective` with a rank per GPU and these parameters. The data
# are right, the node has no violation, and the output is in $work/said.
collectives() {
    local gpus=$1 persona=$2 mca=()
    shift 2
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        mca+=(--mca "coll_dma_${1%%=*}" "${1#*=}")
        shift
    done
    [ $# = 0 ] || shift
    job 60 "$gpus" "$persona" "$gpus" "${mca[@]}" "$bin/collective" "$@" >"$work/said" 2>&1 || { cat "$work/said"; return 1; }
    cat "$work/said"
    grep -q '^collective: data right$' "$work/said" && silent
}

# ours: prints how many queues of each type the component has created: 2 host-facing, 5 link, 6 on a given engine
ours() {
    cat "$work"/stats/* | awk '$1 == "queue" && $10 == "mca_coll_dma.so" { print $8 }' | sort | uniq -c |
        awk '{ printf "%s%s:%s", sep, $2, $1; sep = " " }'
}

# made TYPES CMD...: CMD succeeds, and the component has created these queues and destroyed all of them
made() {
    local wanted=$1
    shift
    "$@" || return 1
    echo "queues made: $(ours)"
    [[ $(ours) =~ ^$wanted$ ]] && ! cat "$work"/stats/* | grep 'owner mca_coll_dma.so open$'
}

# but PATTERN CMD...: CMD succeeds, and the output has this pattern
but() {
    local pattern=$1
    shift
    "$@" && grep -Eq -e "$pattern" "$work/said"
}

# come_and_go QUEUES: buffers are freed and allocated again: none is refused because of an earlier one, and the engines serve
# all
come_and_go() {
    collectives 3 mi250x queues="$1" -- free && ! grep -E 'cannot be opened|goes through the host' "$work/said"
}

# The queue of each link is on the engine that the kernel recommends for this link.
on_recommended() {
    collectives 8 mi300x gpu_variant=pcpy "$@" && [ "$(cat "$work"/stats/* | awk '/ moved gpu[1-7]/ && $3 == 0 { print $5, $9 }' |
        sort -nu | tr '\n' ' ')" = '2 gpu3 4 gpu4 6 gpu7 8 gpu5 10 gpu6 12 gpu2 14 gpu1 ' ]
}

# recommended: counts pairs of a queue of the component and another GPU to which it has written; prints their number, and how
# many of them are on the engine that the kernel recommends for the link
recommended() {
    local gpu engine peer mask of=0 on=0
    while read -r gpu engine peer; do
        mask=$(grep -l "^node_to $((peer + 1))$" "$work/tree/nodes/$((gpu + 1))"/io_links/*/properties |
            xargs grep -h recommended_sdma)
        on=$((on + (${mask##* } >> engine & 1))) of=$((of + 1))
    done < <(cat "$work"/stats/* | awk '/^queue/ { ours = /owner mca_coll_dma/ }
        ours && sub(/gpu/, "", $9) && $8 == "moved" && $3 != $9 { print $3, $5, $9 }')
    echo "$on $of"
}

# shares LEAST PERCENT ARGS...: there are at least LEAST such pairs, and PERCENT of them are on recommended engines. A broadcast
# writes to two GPUs and is on the engine of one of them.
shares() {
    local on of
    collectives 8 mi300x "${@:3}" || return 1
    read -r on of < <(recommended)
    echo "$on of $of pairs of a queue and a peer are on recommended engines"
    [ "$of" -ge "$1" ] && [ $((100 * on)) -ge $(($2 * of)) ]
}

# conditions: prints the number of COND_EXE packets in the component's queues, without the four in the self-test of each of 4
# processes
conditions() {
    echo $(($(packets cond-exe) - 4 * 4))
}

# eager CMD...: programs wait in queues wherever they can
eager() (
    arm_always
    "$@"
)

# armed ARGS...: programs wait in queues before their start
armed() {
    eager collectives 4 mi300x "$@" && echo "conditions: $(conditions)" && [ "$(conditions)" -gt 0 ]
}

# not_armed ARGS...: no program waits in a queue before its start
not_armed() {
    eager collectives 4 mi300x "$@" && echo "conditions: $(conditions)" && [ "$(conditions)" = 0 ]
}

# The same checks with a ROCr that has DMA queues for applications.
newer() {
    with EMU_ROCR_MINOR=31 "$@"
}

# passes_over PART REASON: the kernel refuses PART, so the runtime copies. Each process reports the reason.
passes_over() {
    with EMU_KFD_REFUSES="$1" made '(2:[0-9]+)?' collectives 4 mi300x verbose=2 &&
        [ "$(grep -c "sdma does not serve device .: rocr: .*; kfd: $2" "$work/said")" = 4 ] &&
        [ "$(grep -c 'is served by the engine stream' "$work/said")" = 4 ]
}

# dies QUEUES: no queue is lost when jobs are killed while their queues wait: more such jobs, on one node, than an engine has
# queues
dies() {
    # shellcheck disable=SC2016
    timeout --kill-after=5 $((60 * patience)) "$root/with-build" --build "$build" --gpus 2 bash -c '
        job() { mpirun --oversubscribe --bind-to none -n 2 --mca coll_dma_queues "$queues" --mca coll_dma_armed_seconds 100 \
            --mca coll_dma_verbose 2 "$@" 2>&1; }
        queues=$2
        for i in {1..9}; do job "$1" die | grep "signal 9" >/dev/null || exit 1; done
        job "$1"' - "$bin/collective" "$1" | tee "$work/said"
    grep -q '^collective: data right$' "$work/said" && grep -q 'served by the engine sdma' "$work/said"
}

# with NAME=VALUE CMD...: runs CMD in this environment
with() {
    local -x "$1"
    shift
    "$@"
}

# even NAME=VALUE...: if engines with odd numbers are fused off, no queue of the component is on one
even() {
    local odd
    collectives 4 mi308x "$@" || return 1
    odd=$(cat "$work"/stats/* | awk '/^queue .* owner mca_coll_dma/ && $6 % 2' | wc -l)
    echo "queues on odd engines: $odd; $(ours)"
    [ "$odd" = 0 ] && [[ $(ours) =~ ^6:[0-9]+$ ]]
}

# without_polls ARGS...: if a POLL may end early, no queue of the component has one, and none waits for a start
without_polls() {
    eager collectives 4 mi100 "$@" || return 1
    echo "polls: $(packets poll), conditions: $(packets cond-exe), copies: $(packets copy)"
    [ "$(packets poll)" = 0 ] && [ "$(packets cond-exe)" = 0 ] && [ "$(packets copy)" -gt 0 ]
}

none='no engine serves device . \('
"$build/test/emu/emu_tree" "$work/tree" mi300x 8
ok 'by default: on the engines of the links' made '2:[0-9]+ 6:[0-9]+' collectives 2 mi250x
ok 'by default: on the recommended engines of 8 MI300X' on_recommended
ok 'by default: pairs on recommended engines, each with one peer' shares 56 100 gpu_variant=pcpy
ok 'by default: pairs on recommended engines, with broadcasts' shares 56 50
ok 'by default: armed programs' armed
ok 'by default: an older kernel' with EMU_KFD_MINOR=16 but 'engine sdma: queues from kfd,' collectives 2 mi250x verbose=2
ok 'an older kernel: nothing is armed' with EMU_KFD_MINOR=16 not_armed
ok 'kfd: on the engines of the links' made '2:[0-9]+ 6:[0-9]+' collectives 2 mi250x queues=kfd
ok 'kfd: on the recommended engines of 8 MI300X' on_recommended queues=kfd
ok 'kfd: armed programs' armed queues=kfd
ok 'kfd: no memory for rings' passes_over memory 'the kernel does not accept memory for a ring'
ok 'kfd: no queues' passes_over queues 'no queue is free on the engine'
ok 'kfd: no doorbells' passes_over doorbells 'the doorbells cannot be mapped'
for variant in auto swap halves; do
    ok "MI100, whose POLLs may end early: $variant" without_polls gpu_variant=$variant
done
ok 'MI100: why nothing is armed' but 'device . is served by the engine sdma: .*POLL of this GPU ends early' \
    collectives 2 mi100 verbose=2
ok 'MI308X: queues on engines that are there' even
ok 'MI308X: no provider names engines' with EMU_KFD_MINOR=16 \
    but 'sdma does not serve device .: rocr: .*; kfd: it cannot name engines, and some are not there' \
    collectives 2 mi308x verbose=2
ok 'kfd: a kernel that cannot name engines' with EMU_KFD_MINOR=16 made '2:[0-9]+ 5:2' collectives 2 mi250x queues=kfd
# Each of the five parts of the self-test has one.
ok 'kfd: queues for one link alone, the others share' \
    with EMU_FAIL_QUEUE_AFTER=6 made '2:[0-9]+ 6:3' collectives 3 mi250x queues=kfd
ok 'kfd: no queue is left' with EMU_FAIL_QUEUE_AFTER=0 \
    but "$none"'kfd: no queue is free on the engine\)' collectives 2 mi250x engine=sdma queues=kfd
ok 'a provider that there is not' \
    but 'coll_dma_queues is "nosuch", which is not one of auto, rocr, kfd' collectives 2 mi250x engine=sdma queues=nosuch
ok 'rocr: by default, and on engines by number' newer but 'engine sdma: queues from rocr, on engines by number' \
    made '6:[0-9]+' collectives 2 mi250x verbose=2
ok 'rocr: on the recommended engines of 8 MI300X' newer on_recommended queues=rocr
ok 'rocr: armed programs' newer armed
ok 'rocr: MI308X, queues on engines that are there' newer even queues=rocr
ok 'rocr: MI100, whose POLLs may end early' newer without_polls
ok 'rocr: an older kernel' newer with EMU_KFD_MINOR=16 but \
    'queues from kfd \(rocr: the kernel driver cannot make queues on a given engine\)' collectives 2 mi250x verbose=2
ok 'rocr: queues whose pointers are not shown' with EMU_ROCR_MINOR=30 but 'engine sdma: queues from kfd,' \
    collectives 2 mi250x verbose=2
ok 'rocr: no queues' newer with EMU_KFD_REFUSES=queues but 'sdma does not serve device .: rocr: no queue is free on the engine; kfd: no queue' \
    collectives 2 mi250x verbose=2
ok 'rocr: queues for one link alone, the others share' \
    newer with EMU_FAIL_QUEUE_AFTER=5 made '6:15' collectives 3 mi250x queues=rocr
ok 'rocr: killed while queues wait' newer eager dies rocr
ok 'rocr: freed buffers do not stand in the way' newer come_and_go rocr
ok 'rocr: children take nothing along' newer made '6:[0-9]+' collectives 2 mi250x queues=rocr -- fork
ok 'rocr: a version that has no DMA queues' \
    but "$none"'rocr: this version of ROCr makes no DMA queues\)' collectives 2 mi250x engine=sdma queues=rocr
ok 'HSA_ENABLE_SDMA=0' with HSA_ENABLE_SDMA=0 \
    but "$none"'HSA_ENABLE_SDMA=0 in the environment\)' collectives 2 mi250x engine=sdma queues=kfd
ok 'kfd: killed while queues wait' eager dies kfd
ok 'kfd: held' eager collectives 2 mi250x queues=kfd armed_seconds=100 -- hold 1
ok 'kfd: freed buffers do not stand in the way' come_and_go kfd
ok 'kfd: children take nothing along' made '2:[0-9]+ [56]:[0-9]+' collectives 2 mi250x queues=kfd -- fork
finish
