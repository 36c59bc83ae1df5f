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
# Faults: none; flap: the link of the last host goes down for FAULT_SECONDS (3); flutter: four times, for a tenth of that; down: for
# good; deaf: it receives nothing for FAULT_SECONDS, and sends; oneway: for good; cut: its TCP connections are destroyed; kill: the
# last rank is killed; setup: the same while communicators are made, with a delay of 0.1 s; host: every process of the last host is;
# off: the last host has no power any more; stop: the last rank is stopped for FAULT_SECONDS; still: every process of the last host
# is; loss: 1 % of all frames between hosts are lost; corrupt, duplicate, reorder: 2 % of them are; slow, crawl: all links carry 64
# or 10 kbit/s for FAULT_SECONDS, and their queues 16 or 100 seconds of that; mtu: packets to and from the last host have at most
# 576 bytes for FAULT_SECONDS, and longer ones are lost; files: a rank may open 32 files; full: there is no room in /dev/shm. The
# output of the jobs is in build/log/faults/FAULT.
#
# Exit status 0 if every fault could be made, whatever came of it: the caller judges. 77 where there can be no bed.
# Not part of ./check by itself.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
every='none flap flutter down deaf oneway cut kill setup host off stop still loss corrupt duplicate reorder slow crawl mtu files full'

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

# later SECONDS CMD...: then, whatever happens meanwhile
later() {
    {
        sleep "$1"
        "${@:2}"
    } &
}

flutter() {
    local i
    for i in 1 2 3 4; do
        "$here/bed-ctl" "$last" link flap "$(awk "BEGIN { print $seconds / 10 }")"
        sleep "$(awk "BEGIN { print $seconds / 10 }")"
    done
}

# What is there before the job begins.
prepare() {
    local i
    case $1 in
    full)
        for ((i = 0; i < hosts; i++)); do
            "$here/bed-ctl" h$i run mount -o remount,size=8k /dev/shm
        done
        ;;
    esac
}

# What is under way when this returns goes on; the time of the fault is now.
inject() {
    local victim=$((ranks - 1))
    case $1 in
    none | files | full) ;;
    flutter) flutter & ;;
    deaf)
        "$here/bed-ctl" "$last" loss 1000
        later "$seconds" "$here/bed-ctl" "$last" loss 0
        ;;
    oneway) "$here/bed-ctl" "$last" loss 1000 ;;
    flap) "$here/bed-ctl" "$last" link flap "$seconds" & ;;
    down) "$here/bed-ctl" "$last" link down ;;
    cut) "$here/bed-ctl" "$last" cut ;;
    kill | setup) "$here/bed-ctl" "$(of_rank $victim 4)" run kill -KILL "$(of_rank $victim 6)" ;;
    host) "$here/bed-ctl" "$last" kill ;;
    off) "$here/bed-ctl" "$last" off ;;
    stop)
        "$here/bed-ctl" "$(of_rank $victim 4)" run kill -STOP "$(of_rank $victim 6)"
        later "$seconds" "$here/bed-ctl" "$(of_rank $victim 4)" run kill -CONT "$(of_rank $victim 6)"
        ;;
    still) "$here/bed-ctl" "$last" stop "$seconds" & ;;
    loss) "$here/bed-ctl" all loss 10 ;;
    corrupt | duplicate | reorder) "$here/bed-ctl" all dirt "$1" 20 ;;
    slow | crawl)
        if [ "$1" = slow ]; then
            "$here/bed-ctl" all rate 64kbit
        else
            "$here/bed-ctl" all rate 10kbit
        fi
        later "$seconds" "$here/bed-ctl" all rate none
        ;;
    mtu)
        "$here/bed-ctl" all dirt corrupt 0 # packets are cut where they are sent
        "$here/bed-ctl" "$last" mtu 576
        later "$seconds" "$here/bed-ctl" "$last" mtu 1500
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
    local fault=$1 mpirun begin after status=0 limit=() grace=3
    shift
    prepare "$fault"
    [ "$fault" != oneway ] || grace=15 # the other side hears nothing from then on, and notices later
    # shellcheck disable=SC2016
    [ "$fault" != files ] || limit=(bash -c 'ulimit -n 32; exec "$@"' limited)
    mpirun -n "$ranks" --map-by "ppr:$per:node" "$@" "${limit[@]}" "$DMA_BED_BUILD/test/bed/coll_loop" -b "$bytes" \
        -s $((seconds + 5)) -g $grace >"$log" 2>&1 </dev/null &
    mpirun=$!
    begin=$(now_ms)
    until grep -q '^looping$' "$log"; do
        if [ $(($(now_ms) - begin)) -gt 200000 ] || ! kill -0 $mpirun 2>/dev/null; then
            case $fault in
            files | full) # that may be what comes of it
                wait $mpirun || status=$?
                report "$fault" yes $status 0
                return
                ;;
            esac
            echo "$fault: the job did not start: $(tail -n 3 "$log")" >&2
            exit 1
        fi
        sleep 0.05
    done
    [ "$fault" = setup ] || sleep 1
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
    status=0 more=()
    case $fault in
    corrupt | duplicate | reorder | mtu) more=(-d 100) ;;
    setup) more=(-d 100000) ;;
    esac
    "$here/bed" "$hosts" "${more[@]}" -t $((seconds + patience + 400)) -- "$here/faults.sh" "${options[@]}" "$fault" -- "$@" || status=$?
    [ $status != 77 ] || exit 77
    [ $status = 0 ] || result=1
done
exit $result
