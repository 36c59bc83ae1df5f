#!/bin/bash
# host.sh NUMBER HOSTS RATE WITH-BUILD...: the first process of a host. Sets up the host, then waits and reaps orphaned
# processes. The host ends with it. Started by rack.sh. Not part of ./check by itself.
#
# WITH-BUILD is a command line of ./with-build. It sets the environment of all logins on the host, and runs as long as the host.
# So the emulated GPU node belongs to the host and not to a job, also because Open MPI's daemons leave the session that starts
# them.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=test/bed/common.sh
. "$here/common.sh"
number=$1 hosts=$2 rate=$3
shift 3
name=h$number

exec 2>&3 3>&-
# /proc is still that of the rack, so this is the process number in the rack.
read -r pid _ </proc/self/stat
exec {go}<>"$bed/$name.go"
echo "$pid" >"$bed/$name.up"
hostname "$name"
mount -t proc proc /proc
mount -t sysfs sysfs /sys
private_folders
without_ipv6
read -r -u "$go" _
exec {go}>&-
ip -batch - <<END
link set lo up
address add $(address_of "$number")/24 dev eth0
link set eth0 up
END
for ((i = 0; i < hosts; i++)); do
    [ $i = "$number" ] || ip neigh add "$(address_of $i)" lladdr "$(mac_of $i)" dev eth0 nud permanent
done
ip neigh add 10.77.0.254 lladdr $head_mac dev eth0 nud permanent
shape eth0 "$rate"
cd /
# The user's settings for the emulated node.
mapfile -d '' -t emulation < <(env -0 | grep -z '^EMU_')
{
    # shellcheck disable=SC2016
    env -i HOME=/root PATH="$PATH" DMA_BED_ID="$DMA_BED_ID" "${emulation[@]}" "$@" -- \
        bash -c 'env -0 >"$0.env" && echo up >"$0.up" && exec sleep infinity' "$bed/$name" ||
        echo 'with-build failed' >"$bed/$name.up"
} &
while :; do
    sleep infinity &
    wait $! || true
done
