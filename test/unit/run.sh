#!/bin/bash
# run.sh [--quick | --list-quick | --list] BUILD [PROGRAM...]: runs the unit test programs of a build, all of them or those that
# are named. It runs some more at once than there are cores, because many of them mostly wait. It prints the output of
# each program, its time, and its processor time in brackets. Failed programs come last. --quick leaves out the
# programs that take longest. --list-quick lists the programs that --quick runs, --list all, in the order in which they run.
set -uo pipefail
select=all
case $1 in
--*)
    select=${1#--}
    shift
    ;;
esac
build=$1
shift

# The tests raise this limit, which most users have, where they need more files.
ulimit -S -n 1024
# The limits of test cases are for hangs only, however busy the machine is.
export CK_DEFAULT_TIMEOUT=15 CK_TIMEOUT_MULTIPLIER=20
# shellcheck source=/dev/null
. "$build/config/build.env"
wrap=()
case ${dma_sanitizers:-} in
*thread*)
    export CK_TIMEOUT_MULTIPLIER=60
    # UCX watches calls that the sanitizer makes when a thread ends, and then takes a lock that does not exist yet.
    export UCX_MEM_EVENTS=no
    # ThreadSanitizer needs a kernel that does not scatter mappings too widely.
    wrap=(setarch -R)
    ;;
?*) export CK_TIMEOUT_MULTIPLIER=40 ;;
esac
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}

# The longest program begins first. A long program that begins last would run alone, with idle cores beside it. `longest`
# are not in --quick.
if [ $# = 0 ]; then
    longest=(test/unit/test_{ucx_tl_faults,plans,device,relay,device_cost,forms,ucx_tl})
    long=(test/unit/test_{device_slots,device_mixed,cluster_comm,device_typed,device_pieces,sdma_bound,sdma_engine,in_stream,threads})
    mapfile -t programs < <(make -s -C "$build" print-unit-tests)
    mapfile -t short < <(printf '%s\n' "${programs[@]}" | grep -vxFf <(printf '%s\n' "${longest[@]}" "${long[@]}"))
    # Without UCX some programs do not exist.
    mapfile -t longest < <(printf '%s\n' "${longest[@]}" | grep -xFf <(printf '%s\n' "${programs[@]}"))
    [[ $select != *quick ]] || longest=()
    set -- "${longest[@]}" "${long[@]}" "${short[@]}"
fi
if [[ $select = list* ]]; then
    printf '%s\n' "$@"
    exit
fi

late=$(mktemp)
trap 'cat "$late"; rm -f "$late"' EXIT

# runs one PROGRAM, whose output is printed in one piece
one() {
    local start=${EPOCHREALTIME/[.,]/} status=0 output time used stat
    output=$("${wrap[@]}" "$build/$1" 2>&1 </dev/null) || status=$?
    time=$(((${EPOCHREALTIME/[.,]/} - start) / 10000))
    # The processor time of all children that have ended, in user and kernel mode, in hundredths of a second.
    read -ra stat <"/proc/$BASHPID/stat"
    used=$((stat[15] + stat[16]))
    printf -v output '%s\n== %s: %s, %d.%02d s (%d.%02d)' "$output" "$1" \
        "$([ $status = 0 ] && echo ok || echo "FAILED (status $status)")" $((time / 100)) $((time % 100)) $((used / 100)) \
        $((used % 100))
    if [ $status = 0 ]; then
        printf '%s\n' "$output"
    else
        printf '%s\n' "$output" >>"$late"
    fi
    return $status
}

failed=0 running=0 most=$(($(nproc) + 2))
for program in "$@"; do
    if [ $running -ge $most ]; then
        wait -n || failed=1
        running=$((running - 1))
    fi
    one "$program" &
    running=$((running + 1))
done
while [ $running -gt 0 ]; do
    wait -n || failed=1
    running=$((running - 1))
done
exit $failed
