#!/bin/bash
# queues.sh: where the sdma engine's queues come from (docs/dev/hardware.md), with collectives in device memory on the emulated node:
# the thunk, the kernel's interface, what each is given, what is said when there are none, and children of the processes.
set -euo pipefail
# shellcheck source=test/device/common.sh
. "$(dirname "$0")/../device/common.sh"
bin=$build/test/emu
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_coll=dma # of jobs within a job

# collectives GPUS PERSONA [NAME=VALUE...] [-- ARGS...]: a rank per GPU, with these parameters. The data are right, nobody did
# anything wrong on the node, and what was said is in $work/said.
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

# ours: how many queues of which type the component made: 2 host-facing, 5 link, 6 of a named engine
ours() {
    cat "$work"/stats/* | awk '$1 == "queue" && $10 == "mca_coll_dma.so" { print $8 }' | sort | uniq -c |
        awk '{ printf "%s%s:%s", sep, $2, $1; sep = " " }'
}

# made TYPES CMD...: CMD succeeds, and the component made these queues and destroyed them all
made() {
    local wanted=$1
    shift
    "$@" || return 1
    echo "queues made: $(ours)"
    [[ $(ours) =~ ^$wanted$ ]] && ! cat "$work"/stats/* | grep 'owner mca_coll_dma.so open$'
}

# but PATTERN CMD...: CMD succeeds, and somebody said this
but() {
    local pattern=$1
    shift
    "$@" && grep -Eq -e "$pattern" "$work/said"
}

# Buffers that come and go: none is refused because of one that was there before, and the engines serve all.
come_and_go() {
    collectives 3 mi250x queues=kfd -- free && ! grep -E 'cannot be opened|goes through the host' "$work/said"
}

# Each link's queue is on the engine that the kernel recommends for it.
on_recommended() {
    collectives 8 mi300x queues=kfd gpu_variant=pcpy && [ "$(cat "$work"/stats/* | awk '/ moved gpu[1-7]/ && $3 == 0 { print $5, $9 }' |
        sort -nu | tr '\n' ' ')" = '2 gpu3 4 gpu4 6 gpu7 8 gpu5 10 gpu6 12 gpu2 14 gpu1 ' ]
}

# Queues of the kernel's make take programs before their start.
armed() {
    collectives 2 mi300x queues=kfd && grep -q ' packet cond-exe ' "$work"/stats/*
}

# Jobs that are killed while their queues wait take none with them: more of them, on one node, than an engine has queues.
dies() {
    # shellcheck disable=SC2016
    timeout --kill-after=5 $((60 * patience)) "$root/with-build" --build "$build" --gpus 2 bash -c '
        job() { mpirun --oversubscribe --bind-to none -n 2 --mca coll_dma_queues kfd --mca coll_dma_armed_seconds 100 \
            --mca coll_dma_verbose 2 "$@" 2>&1; }
        for i in {1..9}; do job "$1" die | grep "signal 9" >/dev/null || exit 1; done
        job "$1"' - "$bin/collective" | tee "$work/said"
    grep -q '^collective: data right$' "$work/said" && grep -q 'served by the engine sdma' "$work/said"
}

# with NAME=VALUE CMD...: in this environment
with() {
    local -x "$1"
    shift
    "$@"
}

# even NAME=VALUE...: where engines with odd numbers are fused off, none of our queues is on one
even() {
    local odd
    collectives 4 mi308x "$@" || return 1
    odd=$(cat "$work"/stats/* | awk '/^queue .* owner mca_coll_dma/ && $6 % 2' | wc -l)
    echo "queues on odd engines: $odd; $(ours)"
    [ "$odd" = 0 ] && [[ $(ours) =~ ^6:[0-9]+$ ]]
}

# without_polls ARGS...: where a POLL may end early, none of our queues has one, and none waits for a start
without_polls() {
    collectives 4 mi100 "$@" || return 1
    echo "polls: $(packets poll), conditions: $(packets cond-exe), copies: $(packets copy)"
    [ "$(packets poll)" = 0 ] && [ "$(packets cond-exe)" = 0 ] && [ "$(packets copy)" -gt 0 ]
}

none='no engine serves device . \('
ok 'thunk, by default' made '2:[0-9]+ 5:[0-9]+' collectives 2 mi250x
ok 'thunk, by name' made '2:[0-9]+ 5:[0-9]+' collectives 2 mi250x queues=thunk
ok 'kfd: on the engines of the links' made '2:[0-9]+ 6:[0-9]+' collectives 2 mi250x queues=kfd
ok 'kfd: on the recommended engines of 8 MI300X' on_recommended
ok 'kfd: armed programs' armed
for variant in auto swap halves; do
    ok "MI100, whose POLLs may end early: $variant" without_polls gpu_variant=$variant
done
ok 'MI100: why nothing is armed' but 'device . is served by the engine sdma: .*POLL of this GPU ends early' \
    collectives 2 mi100 verbose=2
ok 'MI308X: queues on engines that are there' even
ok 'MI308X: queues on engines that are there, all links' with EMU_NEW_THUNK=1 even queues=thunk
ok 'MI308X: no provider names engines' with EMU_KFD_MINOR=16 \
    but 'sdma does not serve device .: thunk: it cannot name engines, and some are not there; kfd: it cannot' \
    collectives 2 mi308x verbose=2
ok 'kfd: a kernel that cannot name engines' with EMU_KFD_MINOR=16 made '2:[0-9]+ 5:2' collectives 2 mi250x queues=kfd
# The five parts of the self-test have one each.
ok 'kfd: queues for one link alone, the others share' \
    with EMU_FAIL_QUEUE_AFTER=6 made '2:[0-9]+ 6:3' collectives 3 mi250x queues=kfd
ok 'kfd: no queue is left' with EMU_FAIL_QUEUE_AFTER=0 \
    but "$none"'kfd: no queue is free on the engine\)' collectives 2 mi250x engine=sdma queues=kfd
ok 'a provider that there is not' \
    but 'coll_dma_queues is "nosuch", which is not one of auto, thunk, kfd' collectives 2 mi250x engine=sdma queues=nosuch
ok 'HSA_ENABLE_SDMA=0' with HSA_ENABLE_SDMA=0 \
    but "$none"'HSA_ENABLE_SDMA=0 in the environment\)' collectives 2 mi250x engine=sdma queues=kfd
ok 'kfd: killed while queues wait' dies
ok 'kfd: held' collectives 2 mi250x queues=kfd armed_seconds=100 -- hold 1
ok 'kfd: freed buffers do not stand in the way' come_and_go
for provider in thunk kfd; do
    ok "$provider: children take nothing along" made '2:[0-9]+ [56]:[0-9]+' collectives 2 mi250x queues=$provider -- fork
done
finish
