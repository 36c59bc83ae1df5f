#!/bin/bash
# run.sh BUILD: runs every unit test program of a build, one after the other, and prints the time of each.
set -uo pipefail
build=$1

# Sanitizers slow the code down; Check's own limit of 4 s per test case grows with them.
# shellcheck source=/dev/null
. "$build/config/build.env"
case ${dma_sanitizers:-} in
*thread*)
    export CK_TIMEOUT_MULTIPLIER=10
    # ThreadSanitizer's memory layout needs a kernel that does not scatter mappings too widely.
    tsan=(setarch -R)
    ;;
?*)
    export CK_TIMEOUT_MULTIPLIER=5
    tsan=()
    ;;
*) tsan=() ;;
esac
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1} UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=0}

failed=0
for test in $(make -s -C "$build" print-unit-tests); do
    start=${EPOCHREALTIME/[.,]/}
    echo "== $test"
    status=0
    "${tsan[@]}" "$build/$test" </dev/null || status=$?
    time=$((${EPOCHREALTIME/[.,]/} - start))
    printf '== %s: %s, %d.%03d s\n' "$test" "$([ $status = 0 ] && echo ok || echo "FAILED ($status)")" \
        $((time / 1000000)) $((time / 1000 % 1000))
    [ $status = 0 ] || failed=1
done
exit $failed
