#!/bin/bash
# Kills a rank at a random moment of a loop of all-gathers. mpirun must end, and nothing may be left: no process, no file in
# /dev/shm or in the directories of the job. kill.sh [-n TIMES] [-- MPIRUN-ARGS...]
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=test/mpi/common.sh
. "$here/common.sh"
times=25
# Limit of a wait in ms. Only what hangs takes so long.
hang=300000
while getopts n: option; do
    case $option in
    n) times=$OPTARG ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || set -- --mca coll dma
victim=$(program kill) || exit 1
# A folder of our own for the session directories, so that everything in it belongs to this test.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TMPDIR=$work/tmp
# Every process of a job has this in its environment.
export DMA_KILL_TEST="kill-$$-$RANDOM"

now_ms() {
    local now=${EPOCHREALTIME/[.,]/}
    echo $((now / 1000))
}

# await MS COMMAND...: runs COMMAND every 5 ms until it succeeds. Fails after MS.
await() {
    local end=$(($(now_ms) + $1))
    shift
    until "$@"; do
        [ "$(now_ms)" -lt $end ] || return 1
        sleep 0.005
    done
}

# await runs the next three.
# shellcheck disable=SC2317
gone() {
    ! kill -0 "$1" 2>/dev/null
}

# shellcheck disable=SC2317
looping() {
    grep -q '^looping$' "$work/out" 2>/dev/null
}

# Processes of this job, found by their environment, except zombies of others.
ours() {
    grep -lzFx "DMA_KILL_TEST=$DMA_KILL_TEST" /proc/[0-9]*/environ 2>/dev/null | grep -v "^/proc/$$/" |
        while IFS=/ read -r _ _ pid _; do
            [ "$pid" = "$BASHPID" ] || case $(cat "/proc/$pid/comm" 2>/dev/null) in
            kill | mpirun | orted | prterun) echo "$pid" ;;
            esac
        done
}

# shellcheck disable=SC2317
none_left() {
    [ -z "$(ours)" ]
}

shm_list() {
    ls -A /dev/shm
}

# Files of the job: new files in /dev/shm whose names contain its pids, and everything under its own TMPDIR. Files of other
# suites, too, if their names contain such digits. Unit tests make trees there (libsdma_tree.c).
leftovers() {
    comm -13 "$work/shm.before" <(shm_list | sort) | grep -E "${1}|dma" | grep -v '^dma-topology-' | sed 's|^|/dev/shm/|'
    find "$TMPDIR" -mindepth 1 ! -type d
    grep -l 'memfd:.*dma' /proc/[0-9]*/maps 2>/dev/null | while IFS=/ read -r _ _ pid _; do
        grep -qzFx "DMA_KILL_TEST=$DMA_KILL_TEST" "/proc/$pid/environ" 2>/dev/null && echo "/proc/$pid/maps"
    done
}

# nothing_stays PIDS: of what was left behind first, nothing is there any more
# shellcheck disable=SC2317
nothing_stays() {
    leftovers "$1" | sort | comm -12 "$work/left" - >"$work/stays"
    mv "$work/stays" "$work/left"
    [ ! -s "$work/left" ]
}

# one NUMBER: prints why it failed
one() {
    local ranks=$((2 + RANDOM % 3)) mpirun target pids start took status=0
    rm -rf "$TMPDIR" "$work/out"
    mkdir "$TMPDIR"
    shm_list | sort >"$work/shm.before"
    # By hand, not through launch(), because the time that mpirun takes to end is measured.
    mpirun --oversubscribe --bind-to none -n $ranks --mca pml ob1 --mca mpi_yield_when_idle 1 "${args[@]}" \
        "$victim" "$1" >"$work/out" 2>"$work/err" &
    mpirun=$!
    if ! await $hang looping; then
        echo "the job did not start: $(tail -n 3 "$work/err")"
        kill -9 $mpirun
        return 1
    fi
    pids=$(sed -n 's/^rank [0-9]* pid //p' "$work/out" | paste -sd'|')
    target=$(sed -n "s/^rank $((RANDOM % ranks)) pid //p" "$work/out")
    sleep "0.$(printf %03d $((RANDOM % 100)))"
    start=$(now_ms)
    kill -9 "$target"
    if ! await $hang gone $mpirun; then
        echo "mpirun is still there $((hang / 1000)) s after rank process $target of $ranks was killed"
        status=1
        kill -9 $mpirun
    fi
    took=$(($(now_ms) - start))
    slowest=$((took > slowest ? took : slowest))
    wait $mpirun 2>/dev/null
    if ! await $hang none_left; then
        echo "still running: $(ours | paste -sd' ')"
        ours | xargs -r kill -9
        status=1
    fi
    leftovers "$pids" | sort >"$work/left"
    # What belongs to a suite beside this one vanishes, and what a killed job leaves behind does not.
    if ! await 60000 nothing_stays "$pids"; then
        echo "left behind: $(cat "$work/left")"
        status=1
    fi
    return $status
}

args=("$@")
slowest=0
for ((i = 1; i <= times; i++)); do
    one $i >"$work/why"
    status=$? # of that job, not of the line below
    verdict "kill $i: $(cat "$work/why")" $status
done
echo "slowest end of mpirun after a kill: $slowest ms"
finish
