# shellcheck shell=bash
# What bed's scripts know of a bed; sourced. A bed's own files are in /run/bed, a mount of the rack's and its hosts' own:
#
#     hosts     /etc/hosts of all            hN.pid   first process of host N, as the rack numbers it
#     hostfile  Open MPI's default hosts     hN.up    where the rack and host N tell each other that they are ready
#     hN.env    what a login on host N finds in its environment
#     keep/N    folders of the user's that stay visible under the private /tmp, and keep.list, which they are
#
# Host N has the address 10.77.0.(N+1) on eth0; the other end of that link is hN in the rack, a port of the bridge br0,
# whose own address, 10.77.0.254, is the head's.
bed=/run/bed

address_of() {
    echo "10.77.0.$(($1 + 1))"
}

mac_of() {
    printf '02:77:00:00:00:%02x\n' "$1"
}
# shellcheck disable=SC2034  # for those that source this
head_mac=02:77:00:00:01:00

# shape DEVICE RATE: what DEVICE sends, or no limit if RATE is empty. A bucket smaller than the 64 KiB that TCP hands
# over at once would let nothing pass.
shape() {
    if [ -n "$2" ]; then
        tc qdisc replace dev "$1" root tbf rate "$2" burst 128k latency 20ms
    else
        tc qdisc del dev "$1" root 2>/dev/null || true
    fi
}

# loss_rule HOST PERMILLE: of frames to HOST, for nftables, which does not know a number that is always below the limit
loss_rule() {
    case $2 in
    0) ;;
    1000) echo "counter name $1 drop" ;;
    *) echo "numgen random mod 1000 < $2 counter name $1 drop" ;;
    esac
}

# way_to HOST: the words before a command that is to run on that host, as after a login, in the array `way`
way_to() {
    local pid environment
    pid=$(cat "$bed/$1.pid")
    mapfile -d '' -t environment <"$bed/$1.env"
    way=(nsenter --target "$pid" --mount --uts --ipc --net --pid -- env -i "${environment[@]}")
}

# enter HOST CMD...
enter() {
    local way
    way_to "$1"
    shift
    "${way[@]}" "$@"
}

# A private /tmp and /dev/shm; folders named in keep.list stay visible at their place.
private_folders() {
    local number=0 folder
    mount -t tmpfs bed /tmp
    mount -t tmpfs bed /dev/shm
    chmod 1777 /tmp /dev/shm
    while read -r folder; do
        mkdir -p "$folder"
        mount --bind "$bed/keep/$number" "$folder"
        number=$((number + 1))
    done <"$bed/keep.list"
}

# Only addresses that this bed gives.
without_ipv6() {
    local file
    for file in /proc/sys/net/ipv6/conf/{all,default}/disable_ipv6; do
        [ ! -e "$file" ] || echo 1 >"$file"
    done
}
