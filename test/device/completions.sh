#!/bin/bash
# completions.sh [BUILD [LOSSES]]: jobs in device memory on a node that loses signs of life of its engines. Losses are
# random, with a seed for each job (DMA_SEED and the next ones; default 1), until this number of signs (default 1000) was lost, late or doubled, in at least 5 jobs
# for each 250. Every form of call is in each job. No job hangs, has wrong data or violates a rule of the node. If no
# communicator has failed, nothing stays armed. The effect of each loss, and which losses are recovered from, is in
# ompi_coll_dma/engine/sdma/run/watch.c.
set -uo pipefail
# shellcheck source=test/device/common.sh
. "$(dirname "$0")/common.sh"
arm_always
wanted=${2:-1000}
jobs=$((5 * ((wanted + 249) / 250)))
seed=${DMA_SEED:-1}

# What a job could leave on the machine.
left_over() {
    pgrep -f "^$work/completions" || true
}
ln -s "$build/test/device/completions" "$work/completions"

# injected [KIND]: how often the node has injected it in the last job
injected() {
    cat "$work"/log/* 2>/dev/null | grep -cE "^note: injected on GPU [0-9]+: ${1:-.*}$"
}

# keeps_rules MODE: if a communicator has failed, a program that had started may wait for the start of a rank that failed
# before. Its queue is left until the process ends (ompi_coll_dma/engine/sdma/run/arm.c)
keeps_rules() {
    case $1 in
    right) silent ;;
    *) ! grep -rh ^violation "$work/log" | grep -v '^violation: leak: queue' ;;
    esac
}

# losing MODE ROUNDS RULES SEED ARGS...: no hang, no wrong data, nothing left
losing() {
    local status=0
    EMU_LOSE=$3 EMU_SEED=$4 EMU_LOSE_US=${late:-20000} job 60 4 mi300x 4 --mca coll_dma_timeout "${timeout:-3}" \
        --mca coll_dma_armed_seconds 100 "${@:5}" "$work/completions" "$1" "$2" >"$work/out" 2>&1 || status=$?
    cat "$work/out"
    echo "status $status, EMU_LOSE=$3 EMU_SEED=$4"
    for _ in {1..1200}; do # mpirun may end before the last of its children
        [ -n "$(left_over)" ] || break
        sleep 0.1
    done
    [ $status = 0 ] && grep -q 'completions: done' "$work/out" && ! grep -q 'is wrong' "$work/out" &&
        keeps_rules "$1" && [ -z "$(left_over)" ]
}

# served: the engines carried out the calls, up to the first error
served() {
    [ "$(packets copy)" -gt 100 ]
}

# recovers KINDS ROUNDS RULES ARGS...: no call fails, although something of this kind was injected. On a busy machine engines
# stand still for seconds, so that a short limit would end calls from which nothing is lost.
recovers() {
    local timeout=60
    losing right "$2" "$3" "$seed" "${@:4}" && served && [ "$(injected "$1")" -gt 0 ]
}

# fails_once RULES: exactly one communicator fails, on all ranks, for this reason. The next one goes through the host
fails_once() {
    local timeout=20 # seconds in which a busy machine does not stand still
    losing either 4 "$1" 1 && grep -q 'done, 4 rounds, 1 errors' "$work/out" &&
        grep -Eq "the engine sdma of .* has failed: $2" "$work/out" &&
        [ "$(grep -c 'another rank of .* has failed' "$work/out")" = 3 ] &&
        grep -Eq 'does not serve .* \(the engine (was stopped after a failure|has failed in an earlier call)\)' "$work/out"
}

late=30000
ok 'doorbells are lost' recovers 'drop doorbell' 4 drop-doorbell:1/4
ok 'read pointers are lost' recovers 'drop read-pointer' 4 drop-read-pointer:1/2
ok 'fences are late' recovers 'late fence' 4 late-fence:1/6
ok 'all interrupts are lost' recovers 'drop trap' 4 drop-trap:1/1
# The fence is that of a call which is written at its start.
written() (
    unset OMPI_MCA_coll_dma_gpu_profile
    "$@"
)
ok 'a fence is lost' written fails_once drop-fence:40:2 'a completion has not come'

total=0
for ((n = 0; (total < wanted || n < jobs) && failed == 0; n++)); do
    seed=$((seed + 1))
    case $((n % 5)) in
    0 | 1 | 2) timeout=60 ok "what can be recovered from, seed $seed" losing right 10 \
        'any-doorbell:1/5,any-read-pointer:1/5,late-fence:1/9' $seed ;;
    3) ok "fences twice, seed $seed" losing either 10 twice-fence:1/6 $seed ;;
    4) timeout=1 ok "fences, seed $seed" losing either 5 any-fence:1/60 $seed ;;
    esac
    total=$((total + $(injected)))
done
echo "$total lost, late or doubled in $n random jobs"
[ "$total" -ge "$wanted" ] || failed=$((failed + 1))
finish
