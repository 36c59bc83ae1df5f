#!/bin/bash
# No system call and no allocation in warm all-gathers: 64 bytes on 2 ranks. syscalls.sh [-- MPIRUN-ARGS...]
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=test/mpi/common.sh
. "$here/common.sh"
[ "${1:-}" != -- ] || shift
[ $# -gt 0 ] || set -- --mca coll dma
program=$(program syscalls) || exit 1
cores=$(nproc)
if [ "$cores" -lt 2 ]; then
    echo "needs a core for each of 2 ranks"
    exit 77
fi
status=0
launch 30 2 --mca pml ob1 "$@" "$program" 10000 64 || status=$?
# mpirun prints more about a status that is not 0; the reason is the last line.
[ $status != 77 ] || echo "tracing a process is not permitted here"
exit $status
