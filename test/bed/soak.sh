#!/bin/bash
# soak.sh [-t SECONDS] [-s SEED] [-w WAY]: jobs that run for long. All operations, forms, datatypes and variants on communicators that come
# and go (the random sweep), in host memory, on an emulated node in device memory, and over hosts of the testbed. Each way
# gets the same part of the time: most of it one job, whose ranks are looked at from outside once a second; the rest jobs that are
# killed whole, at a random moment. WAY: host, device or hosts alone. Runs inside ./with-build.
#
# Right: no call has wrong data. Flat: what a rank has at least in the last third of its life (descriptors, mappings, resident
# memory) is not more than what it has at least in the middle third. The least of many looks is what it keeps between calls; what
# it has at most depends on the call. Clean: after a job that was killed, no file is left in /dev/shm and $TMPDIR, which are this
# script's own.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
# shellcheck source=test/lib.sh
. "$root/test/lib.sh"
seconds=60 seed=1 only=''
while getopts t:s:w: option; do
    case $option in
    t) seconds=$OPTARG ;;
    s) seed=$OPTARG ;;
    w) only=$OPTARG ;;
    *) exit 2 ;;
    esac
done
build=$(cd "$DMA_TEST_BIN/../.." && pwd)
if [ -z "${DMA_SOAK:-}" ]; then
    unshare --mount --ipc true 2>/dev/null || skip 'this machine gives no right to make namespaces'
    # shellcheck disable=SC2016
    DMA_SOAK=soak-$$-$RANDOM exec unshare --mount --ipc --propagation private bash -c '
        mount -t tmpfs -o mode=1777 tmpfs /dev/shm && exec "$@"' - "$0" -t "$seconds" -s "$seed" ${only:+-w "$only"}
fi
work=$(mktemp -d "$build/test/bed/soak.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/tmp"
export TMPDIR=$work/tmp
# Of growth. Memory: what the allocator may take for good while sizes are random, which is as much without coll/dma.
slack_kb=24576 slack=4

# Ranks of the job: programs with our mark. Their environment says so, in other pid namespaces too.
ranks() {
    grep -lzFx "DMA_SOAK=$DMA_SOAK" /proc/[0-9]*/environ 2>/dev/null | while IFS=/ read -r _ _ pid _; do
        [ "$(cat "/proc/$pid/comm" 2>/dev/null)" != sweep ] || echo "$pid"
    done
}

# look PID: "PID DESCRIPTORS MAPPINGS KB"
look() {
    local fds maps rest kb
    fds=(/proc/"$1"/fd/*)
    maps=$(wc -l <"/proc/$1/maps") || return
    read -r _ kb rest < <(grep '^RssAnon:' "/proc/$1/status") || return
    echo "$1 ${#fds[@]} $maps $kb" "${rest:+}"
}

# begin WAY CASES: the job, in the background; $job
begin() {
    local sweep=("$build/test/mpi/sweep" -s "$seed" -n "$2" -w 300)
    seed=$((seed + 1))
    case $1 in
    host)
        mpirun --oversubscribe --bind-to none -n 3 -x DMA_SOAK --mca coll dma --mca mpi_yield_when_idle 1 "${sweep[@]}" ;;
    device)
        "$root/with-build" --gpus 2 mpirun --oversubscribe --bind-to none -n 2 -x DMA_SOAK --mca coll dma \
            --mca mpi_yield_when_idle 1 "${sweep[@]}" -m 65536 -D device ;;
    hosts)
        "$here/bed" 2 -t 86400 -- mpirun -n 4 --map-by ppr:2:node -x DMA_SOAK --mca coll dma "${sweep[@]}" ;;
    esac >"$work/out" 2>&1 </dev/null &
    job=$!
}

# await_ranks: they are there
await_ranks() {
    local i
    for ((i = 0; i < 300; i++)); do
        [ -z "$(ranks)" ] || return 0
        sleep 0.1
    done
    cat "$work/out"
    return 1
}

# kill_all: every rank at once, and what started them must notice
kill_all() {
    local i
    # shellcheck disable=SC2046
    kill -9 $(ranks) 2>/dev/null
    for ((i = 0; i < 300; i++)); do
        kill -0 "$job" 2>/dev/null || break
        sleep 0.1
    done
    [ $i -lt 300 ] || {
        echo 'the job does not end'
        kill "$job"
        return 1
    }
    wait "$job"
    ! grep -E '^sweep: rank [0-9]+ ' "$work/out" | grep -v 'signal 9'
}

# flat FILE: the least of each rank's last third against that of its middle third
flat() {
    awk -v slack=$slack -v slack_kb=$slack_kb '
        { n[$1]++; for (k = 2; k <= 4; k++) v[$1, n[$1], k] = $k }
        function least(p, from, to, k,   i, m) {
            m = v[p, from, k]
            for (i = from; i <= to; i++) if (v[p, i, k] < m) m = v[p, i, k]
            return m
        }
        END {
            split("x descriptors mappings kB", what, " ")
            for (p in n) {
                looks++
                if (n[p] < 6) { print "only " n[p] " looks at a rank"; bad = 1; continue }
                third = int(n[p] / 3)
                for (k = 2; k <= 4; k++) {
                    before = least(p, third + 1, 2 * third, k)
                    after = least(p, 2 * third + 1, n[p], k)
                    printf "rank %s, %d looks: %d, then %d %s\n", p, n[p], before, after, what[k]
                    if (after > before + (k == 4 ? slack_kb : slack)) { print "it grows"; bad = 1 }
                }
            }
            exit bad || !looks
        }' "$1"
}

# long WAY SECONDS
long() {
    local end pid
    begin "$1" 100000000
    await_ranks || return
    end=$((SECONDS + $2))
    : >"$work/looks"
    while [ $SECONDS -lt $end ]; do
        kill -0 $job 2>/dev/null || {
            tail -n 20 "$work/out"
            return 1
        }
        for pid in $(ranks); do
            look "$pid" >>"$work/looks" 2>/dev/null
        done
        sleep 1
    done
    kill_all && flat "$work/looks"
}

left() {
    # Without what the GPU runtime's compiler leaves.
    find /dev/shm "$TMPDIR" -mindepth 1 ! -path '*/comgr-*'
}

# killed WAY SECONDS: jobs, until the time is over
killed() {
    local end=$((SECONDS + $2)) before
    before=$(left)
    while [ $SECONDS -lt $end ]; do
        begin "$1" 100000000
        await_ranks || return
        sleep $((RANDOM % 3)).$((RANDOM % 10))
        kill_all || return
        [ "$(left)" = "$before" ] || {
            echo "before: $before"
            echo "after: $(left)"
            return 1
        }
    done
}

RANDOM=$seed
ways=(host)
[ ! -e "$build/test/emu/libnode.so" ] || ways+=(device)
! "$here/bed" 2 -- true >/dev/null 2>&1 || ways+=(hosts)
[ -z "$only" ] || ways=("$only")
share=$((seconds / ${#ways[@]}))
for way in "${ways[@]}"; do
    ok "$way: flat" long "$way" $((share * 3 / 4))
    ok "$way: killed" killed "$way" $((share / 4))
    cp "$work/looks" "$build/log/soak-$way.looks"
done
finish
