#!/bin/bash
# agent.sh [-OPTION...] HOST CMD...: Open MPI's way from the head to a host (plm_rsh_agent), as ssh is elsewhere: a shell on
# the host runs CMD, in the environment of a login there; nothing of ours goes along. Not part of ./check by itself.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=test/bed/common.sh
. "$here/common.sh"
while [[ ${1:-} == -* ]]; do
    shift
done
host=$1
shift
way_to "$host"
exec "${way[@]}" /bin/sh -c "$*"
