#!/bin/bash
# run.sh BUILD [PROGRAM...]: runs the unit test programs of a build, all of them or only those named, a few more at once
# than there are cores, as some mostly wait, and prints the output and the time of each; what failed comes last, where whoever
# sees only the end of it finds it.
set -uo pipefail
build=$1
shift

# Check's own limit of 4 s per test case is for machines that have nothing else to do, and without sanitizers.
export CK_DEFAULT_TIMEOUT=${CK_DEFAULT_TIMEOUT:-15}
# shellcheck source=/dev/null
. "$build/config/build.env"
wrap=()
case ${dma_sanitizers:-} in
*thread*)
    export CK_TIMEOUT_MULTIPLIER=10
    # UCX watches calls that the sanitizer makes when a thread ends, and takes a lock there that is not made yet.
    export UCX_MEM_EVENTS=no
    # ThreadSanitizer needs a kernel that does not scatter mappings too widely.
    wrap=(setarch -R)
    ;;
?*) export CK_TIMEOUT_MULTIPLIER=5 ;;
esac
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}

# The longest first: one that begins last has the machine to itself, and the rest of the cores idle.
if [ $# = 0 ]; then
    long=(test/unit/test_{plans,ucx_tl_faults,device,relay})
    mapfile -t programs < <(make -s -C "$build" print-unit-tests | tr ' ' '\n' | grep -vxFf <(printf '%s\n' "${long[@]}"))
    set -- "${long[@]}" "${programs[@]}"
fi

late=$(mktemp)
trap 'cat "$late"; rm -f "$late"' EXIT

# one PROGRAM: its output comes in one piece
one() {
    local start=${EPOCHREALTIME/[.,]/} status=0 output time
    output=$("${wrap[@]}" "$build/$1" 2>&1 </dev/null) || status=$?
    time=$((${EPOCHREALTIME/[.,]/} - start))
    printf -v output '%s\n== %s: %s, %d.%03d s' "$output" "$1" \
        "$([ $status = 0 ] && echo ok || echo "FAILED (status $status)")" $((time / 1000000)) $((time / 1000 % 1000))
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
