#!/bin/bash
# lose.sh [BUILD]: jobs in device memory that lose a process, the device or an engine, or never get a resource. No job hangs,
# no job has wrong data without an error, and nothing is left behind.
set -uo pipefail
# shellcheck source=test/device/common.sh
. "$(dirname "$0")/common.sh"
arm_always

# What a job could leave on the machine.
left_over() {
    find "$work/tmp" /dev/shm -maxdepth 1 -name 'coll?dma*'
    pgrep -f "^$work/lose" || true
}

# Our own name for the program and folder for nodes, because others may be running on this machine.
mkdir "$work/tmp"
export TMPDIR=$work/tmp
ln -s "$build/test/device/lose" "$work/lose"

# lose MODE VARIABLES ARGS...: the status is that of mpirun; 98: it hung; 99: something is left
lose() {
    local mode=$1 variables=$2 status=0 before start=$SECONDS
    shift 2
    before=$(left_over)
    for variable in ${variables//,/ }; do
        local -x "${variable?}"
    done
    job 90 4 mi300x 4 "$@" "$work/lose" "$mode" || status=$?
    [ $((SECONDS - start)) -lt $((90 * patience)) ] || return 98
    for _ in {1..1200}; do # mpirun may end before the last of its children
        [ "$(left_over)" != "$before" ] || break
        sleep 0.1
    done
    if [ "$(left_over)" != "$before" ]; then
        echo "left behind: $(left_over)"
        return 99
    fi
    return $status
}

# ends STATUS-PATTERN MODE VARIABLES ARGS...: no hang, no wrong data, and this status
ends() {
    local pattern=$1 status=0
    shift
    lose "$@" >"$work/out" 2>&1 || status=$?
    cat "$work/out"
    echo "status $status"
    ! grep -q 'is wrong' "$work/out" && [[ "$status" =~ ^($pattern)$ ]] && [[ ! "$status" =~ ^(98|99|124)$ ]]
}

# goes_on TEXT VARIABLES ARGS...: all rounds are right, one line says why engines are not used, and no rule was violated
goes_on() {
    ends 0 loop "${@:2}" && grep -q 'lose: done' "$work/out" && grep -Eq "$1" "$work/out" && silent
}

# fails_after RANKS MODE VARIABLES ARGS...: calls after a reset fail, and that many ranks say why, once
fails_after() {
    ends 0 "${@:2}" && grep -q 'lose: done' "$work/out" && silent &&
        [ "$(grep -c 'coll/dma: device [0-9] has been reset' "$work/out")" = "$1" ]
}

# newer QUEUES: the variable for a node whose ROCr makes these queues
newer() {
    [ "$1" = rocr ] && echo EMU_ROCR_MINOR=31 || echo EMU_ROCR_MINOR=
}

# faults QUEUES VARIABLES: an error with the reason, and no process ends by itself
faults() {
    ends 4 loop "$2,$(newer "$1")" --mca coll_dma_queues "$1" && grep -q 'has failed: the GPU faulted at address' "$work/out" &&
        ! grep -q 'Assertion\|Signal:' "$work/out"
}

# faults_early QUEUES: in the self-test. Then the engine is not used, and the queue is left to the driver.
faults_early() {
    ends 0 loop "EMU_FAULT_PACKET=1,$(newer "$1")" --mca coll_dma_queues "$1" --mca coll_dma_verbose 2 &&
        grep -q 'lose: done' "$work/out" && grep -q 'sdma does not serve device .*: the GPU faulted at address' "$work/out"
}

for turn in 1 2 3; do
    ok "a process is killed, $turn" ends '[1-9][0-9]*' kill ''
done
ok 'MPI_Abort with programs armed' ends '[1-9][0-9]*' abort ''
ok 'exit without MPI_Finalize' ends '[0-9]+' exit ''
ok 'MPI_Finalize after hipDeviceReset' ends 0 reset ''
ok 'calls after hipDeviceReset' fails_after 4 again ''
ok 'calls after hipDeviceReset of one rank' fails_after 1 one ''
ok 'calls after hipDeviceReset, engine stream' fails_after 4 again '' --mca coll_dma_engine stream
for queues in $(providers); do
    ok "a process is killed, queues of $queues" ends '[1-9][0-9]*' kill "$(newer "$queues")" --mca coll_dma_queues "$queues"
    ok "calls after hipDeviceReset, queues of $queues" fails_after 4 again "$(newer "$queues")" --mca coll_dma_queues "$queues"
    ok "an engine is reset, queues of $queues" ends '[1-9][0-9]*' loop "EMU_RESET_PACKET=40,$(newer "$queues")" \
        --mca coll_dma_timeout 3 --mca coll_dma_queues "$queues"
    for packet in 20 40 60; do
        ok "a fault of an engine at packet $packet, queues of $queues" faults "$queues" EMU_FAULT_PACKET=$packet
    done
    ok "a fault in the self-test, queues of $queues" faults_early "$queues"
done
ok 'no queue at all' goes_on 'sdma does not serve device .*: ' EMU_FAIL_QUEUE_AFTER=0 --mca coll_dma_verbose 2
ok 'two queues' goes_on 'done' EMU_FAIL_QUEUE_AFTER=2
ok 'memory that cannot be imported' goes_on 'cannot be opened' EMU_FAIL_IMPORT_AFTER=0
ok 'memory that cannot be imported, later' goes_on 'done' EMU_FAIL_IMPORT_AFTER=3
ok 'the runtime does without SDMA' goes_on 'done' HSA_ENABLE_SDMA=0
ok 'no description of the machine' goes_on 'sdma does not serve device .*: ' '' --mca coll_dma_sysfs /nowhere \
    --mca coll_dma_verbose 2
ok 'host memory only: no HIP, and fork' ends 0 fork ''
finish
