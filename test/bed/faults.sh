#!/bin/bash
# faults.sh [-k HOSTS] [-n RANKS_PER_HOST] [-b BYTES] [-f FAULT_SECONDS] [-w WAIT_SECONDS] FAULT...|all [-- MPIRUN-ARGS...]
#
# What a user sees when something breaks in a loop of collectives (coll_loop) across hosts: for each fault, a bed of its own
# in which the fault happens one second into the loop, and one line
#
#     flap ended=yes status=0 after=7.1 returned=0/4 slowest=3.15 data=right left=0
#
#     ended     whether mpirun ended by itself within WAIT_SECONDS (30) of the fault; `after`: so many seconds after it
#     status    of mpirun; - if it did not end
#     returned  on how many ranks an MPI call returned an error; `said` is the first one
#     slowest   longest call that succeeded, in seconds, among those longer than 0.2
#     data      right, if the loop came to its end and every byte was checked; WRONG; none, if it did not come to its end
#     left      processes of the job still there one second after mpirun ended, on hosts that live
#
# Faults: none; flap: the link of the last host goes down for FAULT_SECONDS (3); down: for good; cut: its TCP connections are
# destroyed; kill: the last rank is killed; host: every process of the last host is; off: the last host has no power any more;
# stop: the last rank is stopped for FAULT_SECONDS; loss: 1 % of all frames between hosts; slow: all links carry 64 kbit/s for
# FAULT_SECONDS, and their queues 16 seconds of that. The output of the jobs is in build/log/faults/FAULT.
#
# Exit status 0 if every fault could be made, whatever came of it: the caller judges. 77 where there can be no bed.
# Not part of ./check by itself.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
every='none flap down cut kill host off stop loss slow'

usage() {
    sed -n '2s/^# /usage: /p' "$0" >&2
    echo "faults: $every" >&2
    exit 2
}

hosts=2 per=2 bytes=1024 seconds=3 patience=30
while getopts k:n:b:f:w: option; do
    [[ $OPTARG =~ ^[1-9][0-9]{0,7}$ ]] || usage
    case $option in
    k) hosts=$OPTARG ;;
    n) per=$OPTARG ;;
    b) bytes=$OPTARG ;;
    f) seconds=$OPTARG ;;
    w) patience=$OPTARG ;;
    *) usage ;;
    esac
done
options=("${@:1:OPTIND-1}")
shift $((OPTIND - 1))
faults=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    [[ " $every all " == *" $1 "* ]] || usage
    if [ "$1" = all ]; then
        # shellcheck disable=SC2206
        faults+=($every)
    else
        faults+=("$1")
    fi
    shift
done
[ ${#faults[@]} -gt 0 ] || usage
[ $# = 0 ] || shift
ranks=$((hosts * per))
last=h$((hosts - 1))
logs=$root/build/log/faults

now_ms() {
    local now=${EPOCHREALTIME/[.,]/}
    echo $((now / 1000))
}

# of_rank RANK FIELD: its host (4) or process number (6), as it says
of_rank() {
    awk -v rank="$1" -v field="$2" '$1 == "rank" && $2 == rank && $3 == "host" { print $field; exit }' "$log"
}

# What is under way when this returns goes on; the time of the fault is now.
inject() {
    local victim=$((ranks - 1))
    case $1 in
    none) ;;
    flap) "$here/bed-ctl" "$last" link flap "$seconds" & ;;
    down) "$here/bed-ctl" "$last" link down ;;
    cut) "$here/bed-ctl" "$last" cut ;;
    kill) "$here/bed-ctl" "$(of_rank $victim 4)" run kill -KILL "$(of_rank $victim 6)" ;;
    host) "$here/bed-ctl" "$last" kill ;;
    off) "$here/bed-ctl" "$last" off ;;
    stop)
        "$here/bed-ctl" "$(of_rank $victim 4)" run kill -STOP "$(of_rank $victim 6)"
        {
            sleep "$seconds"
            "$here/bed-ctl" "$(of_rank $victim 4)" run kill -CONT "$(of_rank $victim 6)"
        } &
        ;;
    loss) "$here/bed-ctl" all loss 10 ;;
    slow)
        "$here/bed-ctl" all rate 64kbit
        {
            sleep "$seconds"
            "$here/bed-ctl" all rate none
        } &
        ;;
    esac
}

# Processes of the job that are left on hosts; zombies wait for the host's first process only.
left() {
    local dir count=0
    for dir in /proc/[0-9]*; do
        case $(cat "$dir/comm" 2>/dev/null || true) in
        coll_loop | orted | prted) grep -q '^State:[[:space:]]*Z' "$dir/status" 2>/dev/null || count=$((count + 1)) ;;
        esac
    done
    echo $count
}

report() {
    local fault=$1 ended=$2 status=$3 after=$4 returned slowest data=none said left=-
    returned=$(sed -nE 's/^rank ([0-9]+) call [0-9]+ returned.*/\1/p' "$log" | sort -u | wc -l)
    slowest=$(awk '$3 == "call" && $5 == "took" && $6 > slow { slow = $6 } END { print slow + 0 }' "$log")
    ! grep -q '^done: .*data right' "$log" || data=right
    ! grep -q 'WRONG DATA' "$log" || data=WRONG
    said=$(sed -nE 's/^rank [0-9]+ call [0-9]+ (returned .*)$/\1/p' "$log" | sed -n 1p)
    if [ "$ended" = yes ]; then
        sleep 1
        left=$(left)
    fi
    printf '%s ended=%s status=%s after=%d.%d returned=%d/%d slowest=%s data=%s left=%s%s\n' "$fault" "$ended" "$status" \
        $((after / 1000)) $((after % 1000 / 100)) "$returned" "$ranks" "$slowest" "$data" \
        "$left" "${said:+ said=\"$said\"}"
}

# In a bed: the job, the fault, the line.
inside() {
    local fault=$1 mpirun begin after status=0
    shift
    mpirun -n "$ranks" --map-by "ppr:$per:node" "$@" "$DMA_BED_BUILD/test/bed/coll_loop" -b "$bytes" \
        -s $((seconds + 5)) >"$log" 2>&1 </dev/null &
    mpirun=$!
    begin=$(now_ms)
    until grep -q '^looping$' "$log"; do
        if [ $(($(now_ms) - begin)) -gt 200000 ] || ! kill -0 $mpirun 2>/dev/null; then
            echo "$fault: the job did not start: $(tail -n 3 "$log")" >&2
            exit 1
        fi
        sleep 0.05
    done
    sleep 1
    begin=$(now_ms)
    if ! inject "$fault" >"$log.fault" 2>&1; then
        echo "$fault: could not be made: $(tail -n 1 "$log.fault")" >&2
        exit 1
    fi
    while kill -0 $mpirun 2>/dev/null; do
        after=$(($(now_ms) - begin))
        if [ $after -gt $((patience * 1000)) ]; then
            report "$fault" no - $after
            return
        fi
        sleep 0.05
    done
    after=$(($(now_ms) - begin))
    wait $mpirun || status=$?
    report "$fault" yes $status $after
}

if [ -n "${DMA_BED:-}" ]; then
    log=$logs/${faults[0]}
    inside "${faults[0]}" "$@"
    exit
fi
mkdir -p "$logs"
result=0
for fault in "${faults[@]}"; do
    status=0
    "$here/bed" "$hosts" -t $((seconds + patience + 400)) -- "$here/faults.sh" "${options[@]}" "$fault" -- "$@" || status=$?
    [ $status != 77 ] || exit 77
    [ $status = 0 ] || result=1
done
exit $result
