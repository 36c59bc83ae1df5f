#!/bin/bash
# rack.sh HOSTS RATE DELAY_US LOSS_PERMILLE GPUS PERSONA BUILD CMD...: the first process in the namespaces of a bed. Makes the
# hosts and the network between them, and runs CMD on the head. When it ends, everything ends. Started by bed.
# Not part of ./check by itself.
#
#     h0: eth0 --- h0 +-----+             The bridge has a fixed table of addresses and ports, and does not learn. So it also works
#     h1: eth0 --- h1 | br0 | -- head     with a delay, where all frames of hosts enter by one more port:
#     ...             +-----+
#                        |
#                      delay              hN, ingress -> (redirect) -> delay -> delay_line, waits -> delay -> br0 -> hM
#
# Rate: tbf at both ends of a link. Loss: nftables in the forward path of the bridge, with one rule per receiver, so that each
# frame between hosts passes one rule. Frames to and from the head are not lost.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
# shellcheck source=test/bed/common.sh
. "$here/common.sh"
hosts=$1 rate=$2 delay=$3 loss=$4 gpus=$5 persona=$6 build=$7
shift 7

# keep FOLDER: keeps a folder below /tmp or /dev/shm visible, although hosts and head have mounts of their own there
keep() {
    local folder
    case $1 in
    /tmp/* | /dev/shm/*) ;;
    *) return 0 ;;
    esac
    while read -r folder; do
        [[ $1/ != "$folder"/* ]] || return 0
    done <"$bed/keep.list"
    folder=$bed/keep/$(wc -l <"$bed/keep.list")
    mkdir "$folder"
    mount --bind "$1" "$folder"
    echo "$1" >>"$bed/keep.list"
}

own_files() {
    local cwd=$PWD i
    mount -t tmpfs bed /run
    mkdir -p $bed/keep
    : >$bed/keep.list
    # The source tree may consist of links into another one, which must be visible, too.
    keep "$root"
    keep "$(cd "$(dirname "$(realpath "$0")")/../.." && pwd)"
    keep "$(cd "$build" && pwd)"
    keep "$(cd "$build" && pwd -P)"
    keep "$cwd"
    {
        echo '127.0.0.1 localhost'
        echo '10.77.0.254 head'
        for ((i = 0; i < hosts; i++)); do
            echo "$(address_of $i) h$i"
        done
    } >$bed/hosts
    for ((i = 0; i < hosts; i++)); do
        echo "h$i slots=1"
    done >$bed/hostfile
    mount --bind $bed/hosts /etc/hosts
    private_folders
    cd "$cwd" 2>/dev/null || cd /
}

# Must run before the ports are made, because each port is redirected to the delay line when it is made.
head_network() {
    local i
    mount -t sysfs sysfs /sys
    without_ipv6
    ip -batch - <<END
link set lo up
link add br0 address $head_mac type bridge forward_delay 0 stp_state 0 mcast_snooping 0
address add 10.77.0.254/24 dev br0
link set br0 up
END
    for ((i = 0; i < hosts; i++)); do
        ip neigh add "$(address_of $i)" lladdr "$(mac_of $i)" dev br0 nud permanent
    done
    {
        echo 'table bridge bed {'
        for ((i = 0; i < hosts; i++)); do
            echo "counter h$i { }"
            printf 'chain h%d {\n%s\n}\n' $i "$(loss_rule h$i "$loss")"
        done
        echo 'chain forward { type filter hook forward priority 0;'
        for ((i = 0; i < hosts; i++)); do
            echo "ether daddr $(mac_of $i) jump h$i"
        done
        printf '}\n}\n'
    } | nft -f -
    [ "$delay" = 0 ] || delay_port
}

delay_port() {
    local ready
    mkfifo $bed/delay.up
    exec {ready}<>$bed/delay.up
    "$build/test/bed/delay_line" delay "$delay" $bed/dirt </dev/null >$bed/delay.up &
    read -r -t 200 -u $ready _ || fail 'the delay line did not start'
    exec {ready}>&-
    ip -batch - <<END
link set delay txqueuelen 10000 master br0 up
link set delay type bridge_slave learning off flood off mcast_flood off bcast_flood off
END
}

fail() {
    echo "bed: $*" >&2
    exit 1
}

# doing PID: prints the state and the kernel stack of this process and of all its descendants
doing() {
    local child children=()
    echo "$1 $(tr '\0' ' ' <"/proc/$1/cmdline"): $(awk '/^State/ { print $2 }' "/proc/$1/status") $(tr '\n' ' ' <"/proc/$1/stack")" >&2
    read -ra children <"/proc/$1/task/$1/children" || true # no newline ends it
    for child in ${children[@]+"${children[@]}"}; do
        doing "$child"
    done
}

# line_of PID FD: prints the line that process PID writes to FD, within 200 seconds. `read -t 1` may end within the line on a
# busy machine, so parts are joined.
line_of() {
    local try line begun=''
    for ((try = 0; try < 200; try++)); do
        if read -r -t 1 -u "$2" line; then
            echo "$begun$line"
            return
        fi
        begun+=$line
        kill -0 "$1" 2>/dev/null || break
    done
    doing "$1" >&2 || true
    return 1
}

add_host() {
    local name=h$1 first pid word up go
    mkfifo "$bed/$name.up" "$bed/$name.go"
    exec {up}<>"$bed/$name.up" {go}<>"$bed/$name.go"
    # Drops what unshare prints when its host is killed. Messages of the host are shown.
    unshare --net --uts --ipc --mount --pid --fork --kill-child --propagation private -- \
        "$here/host.sh" "$1" "$hosts" "$rate" "${login[@]}" {up}>&- {go}>&- </dev/null 3>&2 2>/dev/null &
    first=$!
    pid=$(line_of $first "$up") || fail "$name did not start"
    echo "$pid" >"$bed/$name.pid"
    ip -batch - <<END
link add $name type veth peer name eth0 address $(mac_of "$1") netns $pid
link set $name master br0
link set $name type bridge_slave learning off
link set $name up
END
    bridge fdb add "$(mac_of "$1")" dev "$name" master static
    shape "$name" "$rate"
    if [ "$delay" != 0 ]; then
        tc qdisc add dev "$name" ingress
        tc filter add dev "$name" ingress protocol all u32 match u32 0 0 action mirred egress redirect dev delay
    fi
    echo go >&"$go"
    word=$(line_of $first "$up") || fail "$name did not come up"
    [ "$word" = up ] || fail "$name: $word"
    exec {up}>&- {go}>&-
}

login=("$root/with-build" --build "$build")
[ "$gpus" = 0 ] || login+=(--gpus "$gpus")
[ -z "$persona" ] || login+=(--persona "$persona")
hostname head
own_files
head_network
for ((i = 0; i < hosts; i++)); do
    add_host $i
done

unset DMA_BED_PARENT
export DMA_BED=$bed DMA_BED_BUILD=$build
export OMPI_MCA_orte_default_hostfile=$bed/hostfile OMPI_MCA_plm_rsh_agent=$here/agent.sh
# A host cannot start processes on another host.
export OMPI_MCA_plm_rsh_no_tree_spawn=1
# The same parameters by their names in later series.
export PRTE_MCA_prte_default_hostfile=$bed/hostfile PRTE_MCA_default_hostfile=$bed/hostfile
export PRTE_MCA_plm_ssh_agent=$here/agent.sh PRTE_MCA_plm_ssh_no_tree_spawn=1
# Debian's Open MPI 6.0 is configured to use only lo.
export OMPI_MCA_btl_tcp_if_include=10.77.0.0/24
# shellcheck source=tools/build.sh
. "$root/tools/build.sh"
mpi_environment
status=0
"$root/with-build" --build "$build" -- "$@" || status=$?
exit $status
