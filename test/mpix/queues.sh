#!/bin/bash
# queues.sh [BUILD [SEEDS [PARTED [ARMED]]]]: tests libmpix_dma with coll/dma and without it, with a fake CUDA, and with HIP on
# the emulated node:
#   - SEEDS times: random rounds of kernels, starts and waits over several queues, communicators and kinds of memory;
#   - PARTED random partitioned collectives;
#   - ARMED random orders in which partitions become ready, on the host and with engines that wait for them;
#   - single cases.
set -uo pipefail
# shellcheck source=test/mpix/common.sh
. "$(dirname "$0")/common.sh"
seeds=${2:-2}
parted=${3:-$((40 * seeds))}
armed=${4:-$((50 * seeds))}

# right WAITS PROGRAM KIND ARGS...: the program succeeds. If WAITS is not empty, the host waits for this reason; otherwise it
# does not wait.
right() {
    right_with 4 "$@"
}

# right_with RANKS WAITS PROGRAM KIND ARGS...
right_with() {
    local waits=$2 output program=$3 ranks=$1
    shift 3
    output=$(job 60 "$ranks" "$program" "$@") || { echo "$output"; return 1; }
    echo "$output"
    grep -qE '^((rounds|parts|armed): .* 0 wrong|cases: .* is right)$' <<<"$output" || return 1
    [ "$1" != hip ] || ! grep -rh ^violation "$work/log" || return 1
    if [ -n "$waits" ]; then
        grep -qE "^libmpix_dma: (the host waits for a queue|kernels cannot use the words .*), because .*$waits" <<<"$output"
    else
        ! grep -q '^libmpix_dma' <<<"$output"
    fi
}

# rounds KIND MEMORY STEPS
rounds() {
    local seed
    for ((seed = 1; seed <= seeds; seed++)); do
        ok "$component: $1, $2 memory, seed $seed" right '' rounds "$1" "$2" multiple free $seed "$3"
    done
}

# parts KIND MEMORY LEVEL FIRST SEEDS
parts() {
    ok "$component: partitioned: $1, $2 memory, $3" right '' parts "$1" "$2" "$3" "$4" $(($5 > 0 ? $5 : 1))
}

# armed MEMORY RANKS LEVEL FIRST SEEDS: runs seeds from FIRST on; the title has them
armed() {
    ok "$component: ready in any order: $1, $2 ranks, $3, seeds $4 to $(($4 + $5 - 1))" right_with "$2" '' armed "$1" "$3" "$4" "$5"
}

# parameter NAME VALUE...: sets parameters of the component for later jobs
parameter() {
    parameters=()
    while [ $# -gt 0 ]; do
        parameters+=(--mca "coll_dma_$1" "$2")
        shift 2
    done
}

for component in dma ^dma; do
    rounds thread host 40
    ok "$component: thread, without a thread of the library" right '' rounds thread host serialized free 7 20
    rounds cuda host 40
    ok "$component: cuda, without a thread of the library" right MPI_THREAD_MULTIPLE rounds cuda host serialized free 8 10
    ok "$component: cuda, blocking streams" right non-blocking rounds cuda host multiple blocking 9 10
    for case in arguments failing freed left; do
        ok "$component: thread: $case" right '' cases thread $case
        ok "$component: cuda: $case" right '' cases cuda $case
    done
    for case in late broken context; do
        ok "$component: cuda: $case" right '' cases cuda $case
    done
    for waiting in '' 0 garbage; do
        ok "$component: cuda, streams that may wait: ${waiting:-unset}" right 'could stand behind' rounds cuda host multiple shared 5 5
    done
    connections='' waiting=3
    ok "$component: cuda, as many streams as the user allows" right '' rounds cuda host multiple free 6 5
    connections=32 waiting=8
    ok "$component: cuda: limit" right 'as many streams' cases cuda limit
    ok "$component: cuda: refused" right 'refuses memory operations' cases cuda refused
    ok "$component: thread: threads" right '' cases thread threads
    export MALLOC_PERTURB_=165
    ok "$component: thread: quick" right '' cases thread quick
    unset MALLOC_PERTURB_
    ok "$component: thread: single" right '' cases thread single
    ok "$component: cuda: single" right MPI_THREAD_MULTIPLE cases cuda single
    parts thread host multiple 1 $((parted / 2))
    parts thread host serialized 100001 "$parted"
    parts cuda host multiple 200001 $((parted / 2))
    armed host 3 multiple 1 "$armed"
    armed host 2 serialized $((armed + 1)) "$armed"
    for case in arguments grouped freed untyped failing polling left single; do
        ok "$component: partitioned: thread: $case" right '' parts_cases thread $case
    done
    for case in idle unlocked unseen; do
        ok "$component: partitioned: $case" right '' parts_idle thread $case
    done
    for case in queue broken reset; do
        ok "$component: partitioned: cuda: $case" right '' parts_cases cuda $case
    done
    ok "$component: partitioned: cuda: refused" right 'refuses memory that it maps' parts_cases cuda refused
done
component=dma
# Device memory of the fake CUDA.
rounds cuda device 40
parts cuda device serialized 300001 "$parted"
if [ -e "$build/test/emu/collective" ]; then
    waiting=3
    rounds hip device 10
    rounds hip host 5
    # Engines that wait for partitions: without time limits, so that no round is revoked, and then with the default limits.
    parameter prelaunch 8 armed_seconds 100000 parts_patience 100000
    armed hip 4 multiple 1 $((armed / 2))
    armed hip 2 serialized $((armed / 2 + 1)) $((armed / 2))
    parameter prelaunch 8
    parts hip device multiple 400001 $((parted / 10))
    parts hip device serialized 500001 $((parted / 10))
    parameter prelaunch 0
    parts hip device multiple 700001 $((parted / 20))
    parameters=()
    parts hip host multiple 600001 $((parted / 20))
    # If the streams waited, this would hang, because HIP has 4 device queues for all of them.
    waiting='' connections=''
    ok 'hip, streams share queues' right 'could stand behind' rounds hip device multiple shared 3 5
    waiting=3 connections=32
    ok 'hip, blocking streams' right non-blocking rounds hip device multiple blocking 3 5
    ok 'hip, without a thread of the library' right MPI_THREAD_MULTIPLE rounds hip device serialized free 4 5
else
    echo 'not tried: HIP, because there is no emulated node'
fi

exported() {
    local symbols
    symbols=$(nm -D --defined-only "$build/.libs/libmpix_dma.so" | awk '$2 != "A" { print $NF }' | sort | tr '\n' ' ')
    echo "$symbols"
    [ "$symbols" = "$(grep -oE '^int MPIX_[A-Za-z_]+' "$root/include/mpix_dma.h" | sed 's/int //' | sort | tr '\n' ' ')" ]
}

# The library needs neither a GPU runtime nor internal libraries of Open MPI.
linked() {
    local needed
    needed=$(readelf -d "$build/.libs/libmpix_dma.so" | grep NEEDED)
    echo "$needed"
    ! grep -E 'hip|cuda|hsa|open-pal|open-rte' <<<"$needed"
}

# The header compiles as C and as C++, and includes only MPI.
compiles() {
    local flags
    read -ra flags < <("${MPICC:-mpicc}" -showme:compile)
    echo '#include <mpix_dma.h>' >"$work/header.c"
    gcc -Wall -Wextra -Werror -pedantic -std=c99 -isystem "${flags[@]#-I}" -I"$root/include" -fsyntax-only "$work/header.c" 2>/dev/null ||
        gcc -Wall -Wextra -std=c99 "${flags[@]}" -I"$root/include" -fsyntax-only "$work/header.c" || return 1
    ! command -v g++ >/dev/null || g++ -Wall -Wextra "${flags[@]}" -I"$root/include" -fsyntax-only -x c++ "$work/header.c"
}

# Runs without mpirun and without a component.
advised() {
    local output
    output=$("$root/with-build" --build "$build" timeout $((60 * patience)) "$build/test/mpix/advised" 2>&1)
    echo "$output"
    grep -q '^advised: .* 0 wrong$' <<<"$output"
}

documented() {
    local row rows=0
    while read -r row; do
        grep -xF "$row" "$root/docs/user/queues.md" || { echo "docs/user/queues.md lacks: $row"; return 1; }
        rows=$((rows + 1))
    done < <("$root/with-build" --build "$build" timeout $((60 * patience)) "$build/test/mpix/advised" table)
    [ $rows = 5 ]
}

ok 'the table of the manual is what is advised' documented
ok 'the number of partitions that is advised is the best' advised
ok 'it exports what the header declares' exported
ok 'it is linked with neither HIP nor CUDA nor the insides of Open MPI' linked
ok 'the header compiles as C and as C++' compiles
finish
