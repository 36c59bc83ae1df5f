# shellcheck shell=bash
# Shared by the scripts of the testbed; sourced. The "rack" is the outer set of namespaces of a bed, with the head; each host
# has a set of its own inside. A bed has its files in /run/bed, which is mounted in the rack and its hosts only:
#
#     hosts      /etc/hosts of all            hN.pid   first process of host N, by its number in the rack
#     hostfile   Open MPI's default hosts     hN.up    a pipe by which host N reports that it is ready; hN.go: the other direction
#     hN.env     the environment of a login on host N
#     keep/N     folders of the user that stay visible below the private /tmp; keep.list has their names
#
# Host N has the address 10.77.0.(N+1) on eth0. The other end of this link is hN in the rack, a port of the bridge br0. The
# bridge has the address of the head, 10.77.0.254.
bed=/run/bed

address_of() {
    echo "10.77.0.$(($1 + 1))"
}

mac_of() {
    printf '02:77:00:00:00:%02x\n' "$1"
}
# shellcheck disable=SC2034  # for those that source this
head_mac=02:77:00:00:01:00

# shape DEVICE RATE: limits what DEVICE sends; no limit if RATE is empty. TCP passes up to 64 KiB at once, and a smaller token
# bucket would let nothing pass.
shape() {
    if [ -n "$2" ]; then
        tc qdisc replace dev "$1" root tbf rate "$2" burst 128k latency 20ms
    else
        tc qdisc del dev "$1" root 2>/dev/null || true
    fi
}

# loss_rule HOST PERMILLE: prints the nftables rule for frames to HOST; nftables refuses a comparison that is always true
loss_rule() {
    case $2 in
    0) ;;
    1000) echo "counter name $1 drop" ;;
    *) echo "numgen random mod 1000 < $2 counter name $1 drop" ;;
    esac
}

# way_to HOST: sets the array `way` to the words that must precede a command to run it on that host, as after a login
way_to() {
    local pid environment
    pid=$(cat "$bed/$1.pid")
    mapfile -d '' -t environment <"$bed/$1.env"
    way=(nsenter --target "$pid" --mount --uts --ipc --net --pid -- env -i "${environment[@]}")
}

# enter HOST CMD...: runs CMD on that host
enter() {
    local way
    way_to "$1"
    shift
    "${way[@]}" "$@"
}

# Mounts a private /tmp and /dev/shm. Folders in keep.list stay visible.
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

# Interfaces have only the addresses of this bed.
without_ipv6() {
    local file
    for file in /proc/sys/net/ipv6/conf/{all,default}/disable_ipv6; do
        [ ! -e "$file" ] || echo 1 >"$file"
    done
}
