#!/bin/bash
# agent.sh [-OPTION...] HOST CMD...: Open MPI's way from the head to a host (plm_rsh_agent), as ssh is elsewhere: a shell on
# the host runs CMD, and nothing of the environment goes along. What a login there would set is set here: the component,
# and with --gpus an emulated GPU node, which is the host's own because its /tmp and /dev/shm are.
# Not part of ./check by itself.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
# shellcheck source=test/bed/common.sh
. "$here/common.sh"
while [[ ${1:-} == -* ]]; do
    shift
done
host=$1
shift
with=("$root/with-build" --build "$DMA_BED_BUILD")
[ "$DMA_BED_GPUS" = 0 ] || with+=(--gpus "$DMA_BED_GPUS")
way_to "$host"
exec "${way[@]}" env -i HOME=/root PATH="$PATH" DMA_BED_ID="$DMA_BED_ID" "${with[@]}" -- /bin/sh -c "$*"
