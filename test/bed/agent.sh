#!/bin/bash
# agent.sh [-OPTION...] HOST CMD...: replaces ssh as Open MPI's plm_rsh_agent. A shell on the host runs CMD in the environment
# of a login there, and gets nothing from the environment of the caller. Not part of ./check by itself.
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
