#!/bin/bash
# soak.sh [-t SECONDS] [-s SEED] [-w WAY]: runs long jobs: the random sweep, with all operations, forms, datatypes and variants,
# on communicators that are made and freed. There are three ways: host (host memory), device (device memory on an emulated node)
# and hosts (several hosts of the testbed). All have the same share of SECONDS; with -w only one runs. Three quarters of the
# time is one job, whose ranks are measured once a second. In the last quarter, jobs are killed at random moments. Runs inside
# ./with-build.
#
# The test passes if
#   - no call has wrong data;
#   - descriptors, mappings and resident memory of a rank do not grow: the minimum in the last third of its life is not greater than
#     the minimum in the middle third. The minimum of many values is what a rank keeps between calls; the maximum depends on the calls;
#   - no file is left in /dev/shm and $TMPDIR after a job was killed. Both are mounts or folders of this script.
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
# The growth that is allowed. For memory, it is what the allocator may keep with random sizes, also without coll/dma. In device
# memory up to 64 blocks stay with the runtime (docs/user/gpu.md, "Small allocations"), which takes some minutes: each is a
# descriptor and a mapping of the emulated node.
slack_kb=24576 slack=4 blocks=64

# Prints the ranks of the job: processes with this DMA_SOAK in their environment, also in other pid namespaces.
ranks() {
    grep -lzFx "DMA_SOAK=$DMA_SOAK" /proc/[0-9]*/environ 2>/dev/null | while IFS=/ read -r _ _ pid _; do
        [ "$(cat "/proc/$pid/comm" 2>/dev/null)" != sweep ] || echo "$pid"
    done
}

# look PID: prints "PID DESCRIPTORS MAPPINGS KB"
look() {
    local fds maps rest kb
    fds=(/proc/"$1"/fd/*)
    maps=$(wc -l <"/proc/$1/maps") || return
    read -r _ kb rest < <(grep '^RssAnon:' "/proc/$1/status") || return
    echo "$1 ${#fds[@]} $maps $kb" "${rest:+}"
}

# begin WAY CASES: starts the job in the background; sets $job
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
        "$here/bed" 2 -t 86400 -- mpirun -n 4 --map-by ppr:2:node -x DMA_SOAK --mca coll dma \
            --mca coll_dma_net_first_calls 1 "${sweep[@]}" ;;
    esac >"$work/out" 2>&1 </dev/null &
    job=$!
}

# await_ranks: waits until there are ranks
await_ranks() {
    local i
    for ((i = 0; i < 300; i++)); do
        [ -z "$(ranks)" ] || return 0
        sleep 0.1
    done
    cat "$work/out"
    return 1
}

# kill_all: kills all ranks at the same time; mpirun must end, too
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

# flat FILE SLACK: for each rank, compares the minimum of the last third with that of the middle third
flat() {
    awk -v slack="$2" -v slack_kb=$slack_kb '
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

# long WAY SECONDS: one job, whose ranks are measured once a second
long() {
    local end pid allowed=$slack
    [ "$1" != device ] || allowed=$((slack + blocks))
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
    kill_all && flat "$work/looks" "$allowed"
}

left() {
    # Without files that the GPU runtime's compiler leaves.
    find /dev/shm "$TMPDIR" -mindepth 1 ! -path '*/comgr-*'
}

# killed WAY SECONDS: starts and kills jobs until the time is over
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
