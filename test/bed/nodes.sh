#!/bin/bash
# nodes.sh [-s SEED] [-n CASES] [-F]: tests coll/dma between hosts: the random sweep over placements, algorithms, delay and
# loss; parameters; what users see when links and processes fail. Runs inside ./with-build.
#
# SEED (1) and CASES (60) are those of each sweep. -F: also the faults that take long.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
# shellcheck source=test/lib.sh
. "$root/test/lib.sh"
build=$(cd "$DMA_TEST_BIN/../.." && pwd)
seed=1 cases=60 more=() all_faults=0
while getopts s:n:F option; do
    case $option in
    s) seed=$OPTARG ;;
    n) cases=$OPTARG ;;
    F) all_faults=1 ;;
    *) exit 2 ;;
    esac
done
# shellcheck source=test/bed/lib.sh
. "$here/lib.sh"
needs_hosts
# Not in /tmp, because each host has a /tmp of its own.
work=$(mktemp -d "$build/test/bed/none.XXXXXX")
trap 'rm -rf "$work"' EXIT

# sweep_in BED-ARGS MPIRUN-ARGS...: runs a sweep with the next seed; in turn, first calls go to others and do not
sweep_in() {
    local options
    read -ra options <<<"$1"
    shift
    seed=$((seed + 1))
    "$here/bed" "${options[@]}" -t 1000 -- mpirun "$@" --mca coll dma \
        --mca coll_dma_net_first_calls $((seed % 2)) "$build/test/mpi/sweep" -s "$seed" -n "$cases" -w 300 \
        "${more[@]}"
}

# All placements.
ok 'sweep: 2 hosts, 2 ranks each' sweep_in 2 -n 4 --map-by ppr:2:node
ok 'sweep: 4 hosts, 2 ranks each' sweep_in 4 -n 8 --map-by ppr:2:node
ok 'sweep: 4 hosts, a rank each' sweep_in 4 -n 4 --map-by ppr:1:node
ok 'sweep: 3 hosts, ranks in turn' sweep_in 3 -n 6 --map-by node
ok 'sweep: 3 hosts, uneven, in turn' sweep_in 3 -n 7 --map-by node
ok 'sweep: 3 hosts, uneven' sweep_in 3 -n 6 --host h0:3,h1:1,h2:2
# If several threads use new peers at the same time, Open MPI's TCP module adds them to a list without a lock, and MPI_Finalize
# crashes. mpi_add_procs_cutoff makes it add all peers in MPI_Init.
more=(-t 3)
ok 'sweep: threads' sweep_in 2 -n 4 --map-by ppr:2:node --mca mpi_add_procs_cutoff 1024
more=()
ok 'sweep: beside pml ucx' sweep_in 2 -n 4 --map-by ppr:2:node --mca pml ucx --mca pml_ucx_tls any \
    --mca pml_ucx_devices any

# All algorithms, with delay and loss, and with small messages.
for variant in ring direct rails leader split transpose pairs; do
    ok "sweep: $variant, delay and loss" sweep_in '3 -d 200 -l 3' -n 6 --host h0:3,h1:1,h2:2 \
        --mca coll_dma_net_variant "cluster_$variant" --mca coll_dma_net_chunk_bytes 4096
done

# The first calls of communicators: see first_calls.c.
first_calls() {
    local options
    read -ra options <<<"$1"
    shift
    says ' checks, 0 failed$' "$here/bed" "${options[@]}" -- mpirun --mca pml ob1 --mca coll dma \
        --mca coll_dma_net_first_calls 1 "$@"
}
loaded=()
! ldd "$build/test/bed/first_calls" | grep libucp >/dev/null || loaded=(ucx) # Open MPI itself needs UCX
ok 'first calls: one all-gather, without UCX, and a second one' first_calls 2 -n 4 --map-by ppr:2:node \
    "$build/test/bed/first_calls" once "${loaded[@]}"
ok 'first calls: every operation, every form' first_calls 2 -n 4 --map-by ppr:2:node "$build/test/bed/first_calls" forms
ok 'first calls: every form, 3 hosts, uneven, delay' first_calls '3 -d 200' -n 6 --host h0:3,h1:1,h2:2 "$build/test/bed/first_calls" forms
ok 'first calls: several communicators' first_calls 3 -n 7 --map-by node "$build/test/bed/first_calls" comms
ok 'first calls: one rank gets an error' first_calls 2 -n 2 --map-by ppr:1:node "$build/test/bed/first_calls" fails
by_default() {
    says ' checks, 0 failed$' env -u OMPI_MCA_coll_dma_net_first_calls "$here/bed" 2 -- mpirun --mca pml ob1 \
        -n 4 --map-by ppr:2:node "$build/test/bed/first_calls" few "${loaded[@]}"
}
ok 'first calls: the default' by_default
# has_first 0|1 CMD...: with the default, has MPI_COMM_WORLD first calls? A line says so. Later calls are served.
has_first() {
    local has=0 output
    output=$(unset OMPI_MCA_coll_dma_net_first_calls && "${@:2}" "$build/examples/allgather_check" 2>&1) || { echo "$output" && return 1; }
    printf '%s\n' "$output"
    ! grep -q 'MPI_COMM_WORLD .*: its first collectives go to the next' <<<"$output" || has=1
    [ $has = "$1" ] && grep -q 'MPI_COMM_WORLD.*: [24] ranks, ready' <<<"$output" && [ "$(grep -c ' 0 wrong' <<<"$output")" = 9 ]
}
two_ranks=("$here/bed" 2 -- mpirun --mca pml ob1 -n 2 --map-by ppr:1:node --mca coll_dma_verbose 1)
ok 'first calls: dma is not named' has_first 1 "${two_ranks[@]}"
ok 'first calls: dma is named' has_first 0 "${two_ranks[@]}" --mca coll dma
ok 'first calls: dma is named, but the parameter is set' has_first 1 "${two_ranks[@]}" --mca coll dma --mca coll_dma_net_first_calls 64
# Beside messages, the first all-gather of a process costs a bounded number of system calls and allocations.
first_costs() {
    says 'first: .*(: few|not permitted here)$' env -u OMPI_MCA_coll_dma_net_first_calls "$here/bed" 2 -- mpirun --mca pml ob1 \
        -n 4 --map-by ppr:2:node "$build/test/mpi/syscalls" first
}
ok 'first calls: what the first one of a process costs' first_costs
ok 'first calls: beside pml ucx' says ' checks, 0 failed$' "$here/bed" 2 -- mpirun -n 4 --map-by ppr:2:node --mca pml ucx \
    --mca pml_ucx_tls any --mca pml_ucx_devices any --mca coll dma --mca coll_dma_net_first_calls 1 "$build/test/bed/first_calls" comms

# differ PARAMETER FIRST SECOND ARGS...: a program whose ranks have FIRST on one host and SECOND on the other, as with a file
# mca-params.conf on one of them. Without an agreement ranks wait for each other for ever.
differ() {
    local set=OMPI_MCA_$1 first=$2 second=$3
    shift 3
    "$here/bed" 2 -- mpirun --mca pml ob1 --mca coll dma --mca coll_dma_verbose 1 -n 2 --host h0:2 -x "$set=$first" "$@" : \
        -n 2 --host h1:2 -x "$set=$second" "$@"
}
# used SERVED PARAMETER FIRST SECOND: all ranks use the value of rank 0, so coll/dma serves MPI_COMM_WORLD, or does not. The data
# are right.
used() {
    local served=0 output
    output=$(differ "${@:2}" "$build/examples/allgather_check" 2>&1) || { echo "$output" && return 1; }
    printf '%s\n' "$output"
    ! grep -q 'MPI_COMM_WORLD.*: 4 ranks, ready' <<<"$output" || served=1
    [ $served = "$1" ] && [ "$(grep -c ' 0 wrong' <<<"$output")" = 9 ]
}
mca_path=${OMPI_MCA_mca_base_component_path:?}
for other in 0 2 64; do
    # Each rank looks at its counters: one call goes to the next component.
    ok "ranks differ: net_first_calls 1 and $other" says ' checks, 0 failed$' differ coll_dma_net_first_calls 1 $other \
        "$build/test/bed/first_calls" once "${loaded[@]}"
done
ok 'ranks differ: net_first_calls 0 and 1' used 1 coll_dma_net_first_calls 0 1
ok 'ranks differ: rank 0 names dma' has_first 0 differ coll dma ^sm
ok 'ranks differ: rank 0 does not name dma' has_first 1 differ coll ^sm dma
ok 'ranks differ: nodes 1 and 0' used 1 coll_dma_nodes 1 0
ok 'ranks differ: nodes 0 and 1' used 0 coll_dma_nodes 0 1
ok 'ranks differ: priority 91 and -1' used 1 coll_dma_priority 91 -1
ok 'ranks differ: priority -1 and 91' used 0 coll_dma_priority -1 91
ok 'ranks differ: priority 91 and 5, which is below other components' used 1 coll_dma_priority 91 5
ok 'ranks differ: rank 0 has not loaded coll/dma' used 0 coll ^dma dma
# A rank other than 0 has not loaded coll/dma. The first call begins the set-up.
lacking() {
    local form=$1 who=$2
    says 'lacking: .* 0 failed$' "$here/bed" 2 -- mpirun --mca pml ob1 --mca coll_dma_net_first_calls 0 -n 4 \
        --map-by ppr:2:node "$build/test/mpi/lacking" "$who" "$form"
}
for form in blocking nonblocking persistent; do
    ok "a rank has not loaded coll/dma, $form" lacking $form 3
done
ok 'a rank on the first node has not loaded coll/dma' lacking blocking 1
without=$build/test/bed/inside:${mca_path#*:}
ok 'ranks differ: rank 0 was built without UCX' used 0 mca_base_component_path "$without" "$mca_path"
ok 'ranks differ: others were built without UCX' used 0 mca_base_component_path "$mca_path" "$without"
# used_late ARGS...: nothing is collected in MPI_Init, so processes ask the daemon of rank 0's host. Open MPI itself asks so for the
# addresses of processes that may have published none yet, and its MPI_Init fails then (its pull request 14321). Such jobs run again.
used_late() {
    local output status
    for _ in 1 2 3; do
        status=0
        output=$(OMPI_MCA_pmix_base_async_modex=1 OMPI_MCA_pmix_base_collect_data=0 used "$@" 2>&1) || status=1
        printf '%s\n' "$output"
        grep -q 'PML add procs failed' <<<"$output" || break
    done
    return $status
}
ok 'ranks differ: processes ask rank 0' used_late 1 coll_dma_net_first_calls 2 0
ok 'ranks differ: processes ask rank 0, which has not loaded coll/dma' used_late 0 coll ^dma dma

# Ranks disagree about a call, so that they choose different algorithms. The test passes if they get errors.
quarrel() {
    local hosts=$1
    shift
    "$here/bed" "$hosts" -t 1000 -- mpirun "$@" --mca coll dma --mca pml ob1 --mca coll_dma_arena_bytes 33554432 \
        "$build/test/mpi/unequal" 8 100000 2>&1 | grep -v 'coll/dma:'
    return "${PIPESTATUS[0]}"
}
ok 'disagreement: 2 hosts, 2 ranks each' quarrel 2 -n 4 --map-by ppr:2:node
ok 'disagreement: 3 hosts, uneven' quarrel 3 -n 6 --host h0:3,h1:1,h2:2

# check_in ARGS: runs allgather_check on two hosts with a rank each
check_in() {
    "$here/bed" 2 -- mpirun -n 2 --map-by ppr:1:node --mca coll dma --mca coll_dma_verbose 1 "$@" \
        "$build/examples/allgather_check"
}
refused() {
    local output
    output=$(check_in "$@" 2>&1) || return 1
    printf '%s\n' "$output"
    ! grep -q ready <<<"$output"
}
# The line comes with the second call.
ok 'served behind a first call' says 'MPI_COMM_WORLD.*: 2 ranks, ready' check_in --mca coll_dma_net_first_calls 1
ok 'first calls: says so, on request' says 'MPI_COMM_WORLD .*: the first calls .* go to others .*reason_net_first_calls' first_calls 2 \
    -n 2 --map-by ppr:1:node --mca coll_dma_verbose 2 "$build/test/bed/first_calls" once "${loaded[@]}"
ok 'served' says 'MPI_COMM_WORLD.*: 2 ranks, ready' check_in
ok 'nodes=0: left to others' refused --mca coll_dma_nodes 0
# counts COUNTER ARGS: COUNTER is not 0 for a communicator that was made after the tool has begun. The files of two ranks may
# have the same name, because each host has its own process numbers.
counts() {
    local counter=$1
    shift
    rm -rf "$work/read" && mkdir "$work/read"
    "$here/bed" 2 -- mpirun -n 2 --map-by ppr:1:node --mca coll dma -x DMA_TEST_COUNTERS="$work/read" \
        -x LD_PRELOAD="$build/test/mpi/libcounters_shim.so" "$@" "$build/test/mpi/prefer" dma || return 1
    cat "$work"/read/* | tee "$work/counters"
    grep -q "^$counter [1-9]" "$work/counters"
}
ok 'nodes=0: counts it' counts reason_comm_off --mca coll_dma_nodes 0
ok 'nodes=0: says so, on request' says 'nodes are left to the other components: coll_dma_nodes is 0 on rank 0 of MPI_COMM_WORLD$' check_in --mca coll_dma_nodes 0
# The component without UCX prints once, also without coll_dma_verbose, that it does not serve the communicator.
inside() {
    local output
    output=$("$here/bed" 2 -- mpirun -n 2 --map-by ppr:1:node --mca coll dma \
        --mca mca_base_component_path "$build/test/bed/inside:${mca_path#*:}" \
        "$build/examples/allgather_check" 2>&1) || {
        echo "$output"
        return 1
    }
    printf '%s\n' "$output"
    [ "$(grep -c 'nodes are left to the other components: coll/dma was built without UCX on the node of rank 0 of MPI_COMM_WORLD$' <<<"$output")" = 1 ] &&
        [ "$(grep -c ' 0 wrong' <<<"$output")" = 9 ]
}
ok 'built without UCX: says so once' inside
ok 'built without UCX: counts it' counts reason_comm_no_ucx --mca mca_base_component_path "$build/test/bed/inside:${mca_path#*:}"
ok 'net_variant: unknown' says 'coll_dma_net_variant is "nothing", which is not one of auto' \
    check_in --mca coll_dma_net_variant nothing

# A size near 2^64 once made a plan without messages, and wrong data.
near_2_64() {
    "$here/bed" 2 -- mpirun -n 4 --map-by ppr:2:node --mca coll dma \
        --mca coll_dma_net_chunk_bytes 18446744073709551000 "$build/examples/allgather_check" >"$work/near" 2>&1
    local status=$?
    cat "$work/near"
    [ $status = 0 ] && grep -q 'coll_dma_net_chunk_bytes is "18446744073709551000", which is not' "$work/near"
}
ok 'net_profile: adopted' says 'ready' check_in --mca coll_dma_net_profile "$root/profiles/bed-1gbit.txt"
ok 'net_profile: refused' says 'network profile /nowhere cannot be used' check_in --mca coll_dma_net_profile /nowhere

ok 'net_chunk_bytes: near 2^64' near_2_64

# On one host, libucp.so.0 is no library: no rank serves the communicator, and the reason is printed.
echo nothing >"$work/libucp.so.0"
without_ucx() {
    local output
    output=$("$here/bed" 2 -- mpirun --mca coll dma --mca coll_dma_verbose 1 -n 1 --host h0 \
        "$build/examples/allgather_check" : -n 1 --host h1 -x "LD_LIBRARY_PATH=$work" "$build/examples/allgather_check" 2>&1)
    printf '%s\n' "$output"
    grep -q 'no transfers between nodes: UCX cannot be used: .*libucp.so.0' <<<"$output" &&
        grep -q '2 ranks, not served: a rank has no network' <<<"$output" && [ "$(grep -c ' 0 wrong' <<<"$output")" = 9 ]
}
# If Open MPI itself is linked with UCX, a process without UCX cannot start.
ldd "$build/examples/allgather_check" | grep libucp >/dev/null || ok 'no UCX on one host' without_ucx

# coll/dma must not open UCX's transports for shared memory, which messages between nodes do not need: they would make System V
# segments of megabytes that the user's group may write, and need space in /dev/shm.
# shellcheck disable=SC2016
beside_shared_memory='for host in h0 h1; do $CTL $host run mount -o remount,size=8k /dev/shm; done
    mpirun -n 2 --map-by ppr:1:node --mca pml ob1 --mca coll dma --mca coll_dma_verbose 1 $LOOP -s 2000 >$WORK/shared 2>&1 &
    for ((i = 0; i < 1000; i++)); do ! grep -qs ready $WORK/shared || break; sleep 0.1; done
    for host in h0 h1; do $CTL $host run cat /proc/sysvipc/shm; done | grep -v shmid >$WORK/segments || true
    kill -USR1 $!
    wait $!
    cat $WORK/shared $WORK/segments
    grep -q "2 ranks, ready" $WORK/shared && ! grep -q . $WORK/segments && grep -q "^done: .*data right" $WORK/shared'
ok 'no shared memory of UCX, and none needed' env CTL="$here/bed-ctl" LOOP="$build/test/bed/coll_loop" WORK="$work" \
    "$here/bed" 2 -- bash -euo pipefail -c "$beside_shared_memory"

# A bridge for containers has the same address on every host, so messages to this address return to the sender.
# shellcheck disable=SC2016
same_address='for host in h0 h1 h2; do
        $CTL $host run ip link add docker0 type veth peer name container
        $CTL $host run ip address add 172.17.0.1/16 dev docker0
        $CTL $host run ip link set docker0 up
        $CTL $host run ip link set container up
    done
    mpirun -n 6 --map-by ppr:2:node --mca coll dma --mca coll_dma_verbose 1 $LOOP -s 0.5 >$WORK/same 2>&1
    cat $WORK/same
    grep -q "6 ranks, ready" $WORK/same && grep -q "^done: .*data right" $WORK/same'
ok 'an address that every host has' env CTL="$here/bed-ctl" LOOP="$build/test/bed/coll_loop" WORK="$work" \
    "$here/bed" 3 -- bash -euo pipefail -c "$same_address"

# Only one host has such a bridge. The others have a default route, so a connection to its address would wait for a quarter of
# an hour.
# shellcheck disable=SC2016
bridge='for host in h0 h1; do
        $CTL $host run ip route add default via 10.77.0.254
        $CTL $host run sysctl -q net.ipv4.tcp_syn_retries=12
    done
    $CTL h0 run ip link add docker0 type bridge
    $CTL h0 run ip link add port type veth peer name container
    $CTL h0 run ip link set port master docker0 up
    $CTL h0 run ip link set container up
    $CTL h0 run ip address add 172.17.0.1/16 dev docker0
    $CTL h0 run ip link set docker0 up
    mpirun -n 4 --map-by ppr:2:node --mca pml ob1 --mca coll dma --mca coll_dma_verbose 1 $LOOP -s 0.5 >$WORK/bridge 2>&1
    cat $WORK/bridge
    grep -q "4 ranks, ready" $WORK/bridge && grep -q "^done: .*data right" $WORK/bridge'
ok 'a bridge for containers on one host' env CTL="$here/bed-ctl" LOOP="$build/test/bed/coll_loop" WORK="$work" \
    "$here/bed" 2 -- bash -euo pipefail -c "$bridge"

# held HOSTS RANKS_PER_HOST MPIRUN-ARGS...: the descriptors of a process (descriptors.c): one connection for each rank of other
# hosts, a few of Open MPI's own, one listener besides two of Open MPI, and none on the loopback interface.
held() {
    local hosts=$1 each=$2 output remote
    shift 2
    output=$("$here/bed" "$hosts" -- mpirun -n $((hosts * each)) --map-by "ppr:$each:node" --mca pml ob1 --mca coll dma \
        "$@" "$build/test/bed/descriptors" 2>&1) || {
        echo "$output"
        return 1
    }
    printf '%s\n' "$output"
    remote=$(((hosts - 1) * each))
    [[ $output =~ ([0-9]+)' at first, '([0-9]+)' at the end: '([0-9]+)' probed, '([0-9]+)' other connections, '([0-9]+)' listeners' ]] &&
        [ "${BASH_REMATCH[3]}" = $remote ] && [ "${BASH_REMATCH[4]}" -le 8 ] && [ "${BASH_REMATCH[5]}" = 3 ] &&
        [ $((BASH_REMATCH[2] - BASH_REMATCH[1])) -le $((remote + each + 20)) ]
}
ok 'descriptors: 4 hosts, 4 ranks each' held 4 4
ok 'descriptors: 6 hosts, 2 ranks each' held 6 2

# If the limit of open files is too low for coll/dma, no rank serves the communicator, and nothing fails.
limited() {
    local limit output
    for limit in 40 46 52 58 64 70 80 160; do
        output=$("$here/bed" 4 -- mpirun -n 16 --map-by ppr:4:node --mca pml ob1 --mca coll dma --mca coll_dma_verbose 1 \
            bash -c "ulimit -n $limit; exec $build/test/bed/descriptors" 2>&1) || {
            echo "limit $limit: $output"
            return 1
        }
        printf 'limit %s: %s\n' "$limit" "$output"
        grep -q 'data right$' <<<"$output" || return 1
        if [ "$limit" -lt 64 ]; then
            grep -Eq 'open files.*ulimit -n' <<<"$output" && grep -q '16 ranks, not served' <<<"$output" || return 1
        elif [ "$limit" -ge 80 ]; then
            grep -q '16 ranks, ready' <<<"$output" || return 1
        fi
    done
}
ok 'limits of open files' limited

# Strangers. Other users on the job's hosts, by any address of the host, and another host (the head) cannot connect to a rank.
# Other hosts of the job can connect, and do no harm unless they send the number with which UCX begins.
# shellcheck disable=SC2016
strangers='fails() { ! "$@"; }
    rm -f $WORK/strangers
    mpirun -n 4 --map-by ppr:2:node --mca pml ob1 --mca coll dma --mca coll_dma_verbose 1 ${FILTER:-} $LOOP -s 2000 >$WORK/strangers 2>&1 &
    job=$!
    for ((i = 0; i < 1000; i++)); do ! grep -qs ready $WORK/strangers || break; sleep 0.1; done
    magic="\x78\x56\x34\x12\xbe\xba\xfe\xca"
    attack="exec 3<>/dev/tcp/\$1/\$2 && { printf \$3 >&3; sleep 0.3; }"
    for host in h0 h1; do
        own=10.77.0.$((${host#h} + 1)) other=h$((1 - ${host#h}))
        ports=$($CTL $host run ss -Htlnp | grep coll_loop | grep -o "$own:[0-9]*" | cut -d: -f2)
        [ $(wc -w <<<"$ports") = 2 ]
        fails grep -E "127.0.0.1:.*coll_loop" <<<"$($CTL $host run ss -Htlnp)"
        attacks=()
        for port in $ports; do
            fails timeout 15 bash -c "$attack" x $own $port $magic &
            attacks+=($!)
            fails $CTL $host run timeout 15 bash -c "$attack" x $own $port $magic &
            attacks+=($!)
        done
        for one in ${attacks[@]}; do wait $one; done
        for port in $ports; do
            $CTL $other run timeout 120 bash -c "$attack" x $own $port "GET\x20/\x20HTTP/1.0\r\n"
            $CTL $other run timeout 120 bash -c "$attack" x $own $port ""
            $CTL $other run timeout 120 bash -c "for i in {1..60}; do exec {fd}<>/dev/tcp/$own/$port; done; sleep 1"
        done
    done
    sleep 1
    kill -USR1 $job
    wait $job
    cat $WORK/strangers
    grep -q "4 ranks, ready" $WORK/strangers && grep -q "^done: .*data right" $WORK/strangers'
ok 'strangers' env CTL="$here/bed-ctl" LOOP="$build/test/bed/coll_loop" WORK="$work" \
    "$here/bed" 2 -- bash -euo pipefail -c "$strangers"
ok 'net_filter=0: strangers connect' refuses '' env CTL="$here/bed-ctl" LOOP="$build/test/bed/coll_loop" WORK="$work" \
    FILTER='--mca coll_dma_net_filter 0' "$here/bed" 2 -- bash -euo pipefail -c "$strangers"
# shellcheck disable=SC2016
no_listener='mpirun -n 4 --host h0:4 --mca pml ob1 --mca coll dma --mca coll_dma_verbose 1 $LOOP -s 2000 >$WORK/alone 2>&1 &
    job=$!
    for ((i = 0; i < 1000; i++)); do ! grep -qs ready $WORK/alone || break; sleep 0.1; done
    $CTL h0 run ss -Htlnp >$WORK/listeners
    kill -USR1 $job
    wait $job
    cat $WORK/alone $WORK/listeners
    grep -q "4 ranks, ready" $WORK/alone && ! grep -E "(10.77.0.1|127.0.0.1):.*coll_loop" $WORK/listeners'
ok 'no listener on one node' env CTL="$here/bed-ctl" LOOP="$build/test/bed/coll_loop" WORK="$work" \
    "$here/bed" 1 -- bash -euo pipefail -c "$no_listener"
# shellcheck disable=SC2016
second_network='for host in h0 h1; do
        $CTL $host run ip link add second type veth peer name end
        $CTL $host run ip address add 10.78.0.$((${host#h} + 1))/24 dev second
        $CTL $host run ip link set second up
        $CTL $host run ip link set end up
    done
    rm -f $WORK/second
    mpirun -n 2 --map-by ppr:1:node --mca pml ob1 --mca coll dma --mca coll_dma_verbose 1 --mca btl_tcp_if_include $1 $LOOP -s 2000 \
        >$WORK/second 2>&1 &
    job=$!
    for ((i = 0; i < 1000; i++)); do ! grep -qs ready $WORK/second || break; sleep 0.1; done
    $CTL h0 run ss -Htlnp >$WORK/listeners
    kill -USR1 $job
    wait $job
    cat $WORK/second $WORK/listeners
    grep -q "2 ranks, ready" $WORK/second && grep -q "10.77.0.1:.*coll_loop" $WORK/listeners &&
        ! grep "10.78.0.1:.*coll_loop" $WORK/listeners'
for interfaces in eth0 10.77.0.0/24; do
    ok "only on interfaces of Open MPI: $interfaces" env CTL="$here/bed-ctl" LOOP="$build/test/bed/coll_loop" WORK="$work" \
        "$here/bed" 2 -- bash -euo pipefail -c "$second_network" x "$interfaces"
done

# fault NAME KEEPALIVE PATTERN [OPTIONS]: the line that faults.sh prints for the fault has this pattern
fault() {
    local output
    output=$("$here/faults.sh" -w 200 "${@:4}" "$1" -- --mca coll dma --mca coll_dma_keepalive "$2" 2>&1)
    printf '%s\n' "$output"
    grep -Eq -e "$3" <<<"$output"
}
ok 'a link down for a while' fault flap 10 'status=0 .*data=right left=0'
ok 'a slow link' fault slow 10 'status=0 .*data=right left=0' -b 100000 -f 15
goes_on='status=0 .*data=right left=0'
ok 'a host that receives nothing for a while' fault deaf 10 "$goes_on" -f 1
ok 'frames with wrong bits' fault corrupt 10 "$goes_on" -f 1
ok 'a rank killed in set-up' fault setup 3 'ended=yes .*left=0'
if [ $all_faults = 1 ]; then
    ok 'a link down again and again' fault flutter 10 "$goes_on"
    ok 'a host that receives nothing any more' fault oneway 3 'returned=4/4'
    ok 'a host stopped for a while' fault still 10 "$goes_on"
    ok 'frames that come twice' fault duplicate 10 "$goes_on"
    ok 'frames in another order' fault reorder 10 "$goes_on"
    ok 'a very slow link' fault crawl 10 "$goes_on" -f 15
    ok 'shorter packets for a while' fault mtu 10 "$goes_on"
    ok 'few open files' fault files 10 "$goes_on"
    ok 'no room in /dev/shm' fault full 10 "$goes_on"
fi
ok 'a rank stopped for a while' fault stop 10 'status=0 .*data=right left=0'
# At least the two ranks whose output still reaches mpirun.
ok 'a link down for good' fault down 3 'returned=[2-4]/4'
# From Open MPI 5.0 on, mpirun ends the job when its own connection is closed, and so some ranks before they get the error.
all=4
[ "${dma_ompi_series:?}" = 4.1 ] || all='[0-4]'
ok 'connections destroyed' fault cut 3 "ended=yes .*returned=$all/4 .*left=0"
who='last trouble between nodes: rank [0-3] of MPI_COMM_WORLD: '
ok 'who was lost, and how' says "$who(Endpoint timeout|Connection reset)" grep coll/dma "$root/build/log/faults/down"
ok 'a rank killed' fault kill 3 'ended=yes .*left=0'
ok 'a host killed' fault host 3 'ended=yes .*left=0'
finish
