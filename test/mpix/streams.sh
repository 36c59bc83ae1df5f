#!/bin/bash
# streams.sh [BUILD [SEEDS [FIRST]]]: tests the starts that streams of CUDA make by themselves, with the fake CUDA:
#   - random starts in streams and by the host, SEEDS seeds for each number of ranks;
#   - single cases, also with few connections for all streams of a process;
#   - ranks that do not start, break or end.
set -uo pipefail
# shellcheck source=test/mpix/common.sh
. "$(dirname "$0")/common.sh"
seeds=${2:-1}
first=${3:-1}
waiting=''

# right RANKS PROGRAM ARGS...: the program succeeds, nothing is wrong, and CUDA has not been misused
right() {
    local output ranks=$1 program=$2
    shift 2
    output=$(job 60 "$ranks" "$program" cuda "$@") || { echo "$output"; return 1; }
    echo "$output"
    ! grep '^fake CUDA: ' <<<"$output" && grep -qE '^(streams: .* 0 wrong|stream_cases: .* is right)$' <<<"$output"
}

# survivors LEVEL CASE: the last of three ranks ends. mpirun lets the others go on.
survivors() {
    local output
    output=$(parameters+=(--enable-recovery); job 60 3 stream_cases cuda "$1" "$2")
    echo "$output"
    [ "$(grep -cE '^stream_cases: rank [01] goes on$' <<<"$output")" = 2 ]
}

ok 'random starts, 3 ranks, without a thread of the library' right 3 streams serialized "$first" "$seeds" 30
ok 'random starts, 5 ranks' right 5 streams multiple $((first + 100000)) "$seeds" 30
ok 'cases, without a thread of the library' right 3 stream_cases serialized fresh asleep active queues held freed gone apart broken reasons
ok 'cases' right 2 stream_cases multiple asleep waited active queues held freed gone broken left
waiting=8
ok 'cases, and streams wait for the thread' right 2 stream_cases multiple hosted queues active gone
ok 'the same with 3 ranks' right 3 stream_cases multiple hosted
waiting=''
ok 'cases, and the host waits' right 2 stream_cases serialized hosted
export DMA_FAKE_CUDA_CONNECTIONS=2
ok 'streams share connections' right 3 stream_cases serialized held
unset DMA_FAKE_CUDA_CONNECTIONS
parameters=(--mca coll_dma_entry_timeout 10) # in which no rank of a busy machine stands still
ok 'a rank does not start' right 3 stream_cases multiple timeout
ok 'a rank does not start, without a thread of the library' right 3 stream_cases serialized timeout
parameters=()
for level in multiple serialized; do
    ok "a rank ends: $level" survivors $level dead
    ok "a rank ends while others start: $level" survivors $level endless
done
finish
