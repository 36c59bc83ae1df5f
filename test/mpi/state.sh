#!/bin/bash
# state.sh: coll_dma_state says which ranks wait for which, in jobs in which a rank is late, stopped, or not yet in the
# set-up, also on three hosts. Only the owner of the job can see it, and nothing is left behind. Runs inside ./with-build.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
# shellcheck source=test/lib.sh
. "$root/test/lib.sh"
build=$(cd "$DMA_TEST_BIN/../.." && pwd)
[ ! -d "${DMA_SUITE_TMPDIR:-}" ] || export TMPDIR=$DMA_SUITE_TMPDIR
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
state=$build/tools/state/coll_dma_state
waiting=$build/test/mpi/waiting
# Each host has a /tmp of its own.
work=$(mktemp -d "$build/test/mpi/state.XXXXXX")
trap '[ -z "${job:-}" ] || kill $job 2>/dev/null; rm -rf "$work"' EXIT
patience=3000 # tenths of a second, for what takes one on an idle machine

# shows PATTERN...: soon the state of `what` has a line for each of them; it is in $work/state
shows() {
    local i pattern
    for ((i = 0; i < patience; i++)); do
        "$state" "$what" >"$work/state" 2>&1 || true
        for pattern; do
            grep -Eq -e "$pattern" "$work/state" || { sleep 0.1 && continue 2; }
        done
        return 0
    done
    echo "no line with $pattern:"
    cat "$work/state" "$work/err"
    return 1
}

# begin RANKS CALLS [child] [MPIRUN-ARGS...]: a job whose last rank does not enter call CALLS + 1; `job` is its mpirun
begin() {
    local i more=()
    [ "${3:-}" != child ] || { more=(64 child) && set -- "$1" "$2" "${@:4}"; }
    # Before the job starts, because the loop below must not read what an earlier job wrote.
    true >"$work/out"
    timeout --kill-after=5 3000 mpirun --oversubscribe --bind-to none -n "$1" --mca pml ob1 --mca mpi_yield_when_idle 1 \
        --mca coll dma --mca coll_dma_warn 0.5 "${@:3}" "$waiting" "$2" "${more[@]}" >"$work/out" 2>"$work/err" &
    job=$!
    what=$job
    for ((i = 0; i < patience; i++)); do
        [ "$(grep -c ' pid ' "$work/out")" != "$1" ] || return 0
        sleep 0.1
    done
    cat "$work/err"
    return 1
}

# process RANK
process() {
    sed -n "s/^rank $1 pid //p" "$work/out"
}

# end RANK: lets the last rank go on; then the job must end with success
end() {
    kill -USR1 "$(process "$1")"
    wait "$job" || { cat "$work/err"; return 1; }
    job=
    grep -qx 'data right' "$work/out"
}

valid() {
    "$state" --json "$@" >"$work/json" && "$root/test/json_schema.py" "$root/tools/state/state.schema.json" "$work/json"
}

# json EXPRESSION: the value of a python expression of the document `d`
json() {
    "$state" --json "$what" | python3 -c "import json, sys; d = json.load(sys.stdin); print($1)"
}

# ---- cases ----

late() {
    shows 'rank 0 has waited [0-9.]+ s in all-gather, call 4 \(entry\) on MPI_COMM_WORLD \(0\) for rank 2, which has not entered it$' \
        'rank 1 has waited' "^process $(process 2), rank 2, sleeping" ' rank 2, 3 calls begun, 3 completed$' \
        "^  MPI_COMM_WORLD \(0\): rank 2 is process $(process 2), sleeping, 3 calls begun, 3 completed" &&
        [ "$(grep -c 'has waited' "$work/state")" = 2 ]
}

stopped() {
    kill -STOP "$(process 2)"
    shows "^process $(process 2), rank 2, stopped" "rank 2 is process $(process 2), stopped"
}

# What coll_dma_warn has printed is a line of the state, except for the time.
same_words() {
    local i warned=
    for ((i = 0; i < patience; i++)); do
        warned=$(sed -n 's/.*coll\/dma: \(rank [0-9]* has waited\) [0-9.]* \(s in .*\); it waits on$/\1 X \2/p' "$work/err" | head -n 1)
        [ -z "$warned" ] || break
        sleep 0.1
    done
    echo "$warned"
    "$state" "$what" | sed -n 's/.*\(rank [0-9]* has waited\) [0-9.]* s/\1 X s/p' | grep -Fx -e "$warned"
}

# By the number of one process, by the name of the job, and without either.
other_names() {
    local name
    name=$("$state" "$what" | sed -n 's/^job //p')
    [ "$("$state" "$(process 1)" | grep -c '^process')" = 1 ] && [ "$("$state" "$name" | grep -c '^process')" = 3 ] &&
        "$state" | grep -x "job $name"
}

# as USER CMD...
as() {
    setpriv --reuid "$1" --regid "$1" --clear-groups "${@:2}"
}

refused() {
    chmod 755 "$work"
    cp "$state" "$work/coll_dma_state" # the checkout may be closed to others
    local user
    for user in 65534 12345; do
        refuses 'belongs to user root; only that user may ask' as $user "$work/coll_dma_state" "$what" &&
            refuses 'belongs to user root' as $user "$work/coll_dma_state" "$(process 0)" &&
            refuses 'no process here uses coll/dma' as $user "$work/coll_dma_state" || return 1
    done
    # the memory itself, too: not only its mode protects it, but also what /proc shows
    ! as 65534 ls "/proc/$(process 0)/fd" 2>/dev/null | grep . && [ "$(stat -Lc %a "$(descriptor "$(process 0)")")" = 600 ]
}

# descriptor PID: the descriptor of its memory
descriptor() {
    find "/proc/$1/fd" -lname '/memfd:coll_dma_state*'
}

schema() {
    valid "$what" && valid && [ "$(json 'd["waited_for"][0]["pid"]')" = "$(process 2)" ] &&
        [ "$(json 'sorted(c["wait"]["call"] for p in d["processes"] for c in p["communicators"] if c["wait"])')" = '[4, 4]' ]
}

in_setup() {
    begin 3 0 &&
        shows 'rank [01] has waited [0-9.]+ s in the set-up \(addresses\) on MPI_COMM_WORLD \(0\) for a message of rank' &&
        valid "$what" && [ "$(json '[c["state"] for p in d["processes"] for c in p["communicators"]]')" = "['set-up', 'set-up']" ] &&
        end 2
}

aside() {
    begin 2 3 --mca coll_dma_arena_bytes 0 && shows 'rank 0, not served: its limit is 0; 0 calls begun' && valid "$what" && end 1
}

# The memory of a process ends with the process.
gone() {
    local pid
    begin 2 3 && shows 'for rank 1' || return 1
    pid=$(process 1)
    kill -9 "$pid"
    wait "$job"
    job=
    refuses "process $pid is gone" "$state" "$pid" && refuses "process $what is gone" "$state" "$what"
}

# A forked child has the memory of its parent, and must not be taken for the parent.
children() {
    begin 2 3 child && shows 'for rank 1' && [ -n "$(descriptor "$(pgrep -P "$(process 0)")")" ] &&
        [ "$(grep -c '^process' "$work/state")" = 2 ] && end 1
}

nothing_left() {
    ! find "${TMPDIR:-/tmp}" /dev/shm -name '*coll_dma*' 2>/dev/null | grep .
}

# Each host shows its own ranks. The last rank is on h2.
# shellcheck disable=SC2016
three_hosts='mpirun -n 6 --map-by ppr:2:node --mca pml ob1 --mca coll dma --mca coll_dma_net_first_calls 1 "$WAITING" "$CALLS" >"$WORK/out" 2>&1 &
    job=$!
    for host in h0 h2; do
        for ((i = 0; i < 3000; i++)); do
            "$CTL" $host run "$STATE" >"$WORK/$host" 2>&1 || true
            ! grep -q "$SHOWN" "$WORK/$host" || break
            sleep 0.1
        done
        "$CTL" $host run "$STATE" --json >"$WORK/$host.json"
    done
    "$CTL" h2 run kill -USR1 "$(sed -n "s/^rank 5 pid //p" "$WORK/out")"
    wait $job'
# over_hosts CALLS SHOWN: a job on three hosts whose last rank does not enter call CALLS + 1; hosts h0 and h2 show this pattern
over_hosts() {
    local output
    output=$("$root/test/bed/bed" 1 -- true 2>&1)
    [ $? != 77 ] || { echo "${output##*$'\n'}" && return 77; }
    rm -f "$work"/h?
    CTL="$root/test/bed/bed-ctl" STATE=$state WORK=$work WAITING=$waiting CALLS=$1 SHOWN=$2 "$root/test/bed/bed" 3 -t 1000 -- \
        bash -c "$three_hosts" || { cat "$work/out"; return 1; }
    cat "$work"/h?
    grep -qx 'data right' "$work/out" &&
        for host in h0 h2; do "$root/test/json_schema.py" "$root/tools/state/state.schema.json" "$work/$host.json" || return 1; done
}

call_4() {
    # Until then the ranks of h0 wait for each other for a moment, inside the node.
    over_hosts 3 'has waited.*call 4.* for \(a message of rank [2-5]\|rank 5\)' || { [ $? = 77 ]; return; }
    grep -Eq 'rank [01] has waited .* in all-gather, call 4 \((messages|inside the node)\) on MPI_COMM_WORLD \(0\) for a message of rank' "$work/h0" &&
        grep -Eq 'rank 4 has waited .* call 4 .* for (a message of )?rank' "$work/h2" &&
        grep -q ', its ranks on this node, 2 ranks' "$work/h2" && grep -q 'rank 5, 3 calls begun, 3 completed' "$work/h2"
}

# The next component carries it out, so nobody knows for whom it waits.
first_call() {
    over_hosts 0 'rank [014], not set up so far: .*; 1 calls begun, 0 completed, no long wait seen$' || { [ $? = 77 ]; return; }
    grep -q 'rank 0, not set up so far: the first calls over several nodes go to others' "$work/h0"
}

begin 3 3
ok 'a late rank' late
ok 'a stopped rank' stopped
ok 'the words of coll_dma_warn' same_words
ok 'a process, the name of a job, all jobs' other_names
if [ "$(id -u)" = 0 ]; then
    ok 'another user is refused' refused
else
    echo 'not checked: another user, because only root can become one'
fi
if command -v python3 >/dev/null; then
    ok 'JSON follows its schema' schema
else
    echo 'not checked: JSON, because python3 is not installed'
    valid() { "$state" --json "$@" >/dev/null; }
    json() { echo "['set-up', 'set-up']"; }
fi
kill -CONT "$(process 2)"
end 2
ok 'the job goes on' test $? = 0
ok 'in the set-up' in_setup
ok 'a communicator that is not served' aside
ok 'a process that is gone' gone
ok 'a child of a rank' children
ok 'three hosts' call_4
ok 'three hosts, in the first call' first_call
ok 'a name that no job has' refuses 'no process here uses coll/dma in the job 1,1' "$state" 1,1
ok 'a process without coll/dma' refuses 'neither process' "$state" $$
ok 'a wrong option' refuses 'unrecognized option' "$state" --signal
ok 'help' says '^usage: coll_dma_state ' "$state" --help
ok 'nothing is left behind' nothing_left
finish
