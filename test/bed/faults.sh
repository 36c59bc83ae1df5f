#!/bin/bash
# faults.sh [-k HOSTS] [-n RANKS_PER_HOST] [-b BYTES] [-f FAULT_SECONDS] [-w WAIT_SECONDS] [-l FOLDER] FAULT...|all [-- MPIRUN-ARGS...]
#
# Shows what a user sees when a fault happens in a loop of collectives (coll_loop) across hosts. Each fault has a bed of its own
# and happens one second after the begin of the loop. For each, the script prints a line:
#
#     flap ended=yes status=0 after=7.1 returned=0/4 slowest=3.15 data=right left=0
#
#     ended     whether mpirun ended by itself within WAIT_SECONDS (30) of the fault
#     status    of mpirun; - if it did not end
#     after     seconds from the fault to the end of mpirun
#     returned  on how many ranks an MPI call returned an error; `said` is the first error
#     slowest   longest call that succeeded, in seconds, among those longer than 0.2
#     data      right: the loop was completed and every byte was checked; WRONG; none: the loop was not completed
#     left      processes of the job that have not ended a minute after mpirun, on hosts that are alive
#
# The faults; those with * last FAULT_SECONDS (3):
#
#     none      no fault
#     flap*     the link of the last host is down
#     flutter   the link of the last host is down four times, each time for a tenth of FAULT_SECONDS
#     down      the link of the last host is down for good
#     deaf*     the last host receives nothing, and sends
#     oneway    the last host receives nothing from then on, and sends
#     cut       the TCP connections of the last host are destroyed
#     kill      the last rank is killed
#     setup     the last rank is killed while communicators are made, in a bed with a delay of 0.1 s
#     host      every process of the last host is killed
#     off       the last host loses power
#     stop*     the last rank is stopped
#     still*    every process of the last host is stopped
#     loss      1 % of all frames between hosts are lost
#     corrupt, duplicate, reorder
#               2 % of all frames between hosts are corrupted, duplicated, reordered
#     slow*, crawl*
#               all links carry 64 or 10 kbit/s; their queues are 16 or 100 seconds long
#     mtu*      packets to and from the last host have at most 576 bytes, and longer ones are lost
#     files     a rank may open 32 files
#     full      there is no room in /dev/shm
#
# The output of the jobs is in FOLDER/FAULT. FOLDER is build/log/faults; who runs beside others needs one of their own.
#
# Exit status 0: every fault could be injected, whatever the outcome. 77: this machine cannot have a bed. Not part of ./check by
# itself.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
every='none flap flutter down deaf oneway cut kill setup host off stop still loss corrupt duplicate reorder slow crawl mtu files full'

usage() {
    sed -n '2s/^# /usage: /p' "$0" >&2
    echo "faults: $every" >&2
    exit 2
}

hosts=2 per=2 bytes=1024 seconds=3 patience=30 logs=$root/build/log/faults
while getopts k:n:b:f:w:l: option; do
    [ "$option" = l ] || [[ $OPTARG =~ ^[1-9][0-9]{0,7}$ ]] || usage
    case $option in
    k) hosts=$OPTARG ;;
    n) per=$OPTARG ;;
    b) bytes=$OPTARG ;;
    f) seconds=$OPTARG ;;
    w) patience=$OPTARG ;;
    l) logs=$OPTARG ;;
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

now_ms() {
    local now=${EPOCHREALTIME/[.,]/}
    echo $((now / 1000))
}

# of_rank RANK FIELD: prints the host (FIELD 4) or the process number (6) of a rank, from its output
of_rank() {
    awk -v rank="$1" -v field="$2" '$1 == "rank" && $2 == rank && $3 == "host" { print $field; exit }' "$log"
}

# end_behind PID...: ends the loop 4 seconds after the ends of these processes, so that it is as long on a busy machine
end_behind() {
    local pid
    for pid; do
        while kill -0 "$pid" 2>/dev/null; do sleep 0.05; done
    done
    sleep 4
    kill -USR1 $mpirun
}

# later SECONDS CMD...: runs CMD after SECONDS, in the background
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

# prepare FAULT: for faults that exist before the job begins
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

# inject FAULT: injects a fault. Faults that last some time continue in the background.
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
        "$here/bed-ctl" all dirt corrupt 0 # so that hosts cut packets themselves, by delay_line cut
        "$here/bed-ctl" "$last" mtu 576
        later "$seconds" "$here/bed-ctl" "$last" mtu 1500
        ;;
    esac
}

# Prints the number of processes of the job that are left on hosts. Zombies do not count: only the first process of a host reaps
# them.
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
        local i
        for ((i = 0; i < 60; i++)); do
            sleep 1
            left=$(left)
            [ "$left" != 0 ] || break
        done
    fi
    printf '%s ended=%s status=%s after=%d.%d returned=%d/%d slowest=%s data=%s left=%s%s\n' "$fault" "$ended" "$status" \
        $((after / 1000)) $((after % 1000 / 100)) "$returned" "$ranks" "$slowest" "$data" \
        "$left" "${said:+ said=\"$said\"}"
}

# inside FAULT MPIRUN-ARGS...: in a bed: runs the job, injects the fault, prints the line
inside() {
    local fault=$1 mpirun begin after status=0 limit=() grace=3 behind
    shift
    prepare "$fault"
    [ "$fault" != oneway ] || grace=15 # the other hosts notice the fault later
    # shellcheck disable=SC2016
    [ "$fault" != files ] || limit=(bash -c 'ulimit -n 32; exec "$@"' limited)
    mpirun -n "$ranks" --map-by "ppr:$per:node" "$@" "${limit[@]}" "$DMA_BED_BUILD/test/bed/coll_loop" -b "$bytes" \
        -s 600 -g $grace >"$log" 2>&1 </dev/null &
    mpirun=$!
    begin=$(now_ms)
    until grep -q '^looping$' "$log"; do
        if [ $(($(now_ms) - begin)) -gt 200000 ] || ! kill -0 $mpirun 2>/dev/null; then
            case $fault in
            files | full) # for these faults this is an outcome
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
    case $fault in
    down | oneway | cut | kill | setup | host | off) ;; # these end the job
    *)
        mapfile -t behind < <(jobs -p | grep -vx $mpirun)
        end_behind "${behind[@]}" &
        ;;
    esac
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
