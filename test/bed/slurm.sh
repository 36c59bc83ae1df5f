#!/bin/bash
# slurm.sh: runs the batch scripts of examples/slurm/ in a real Slurm: slurmctld and munged on the head of a testbed, slurmd and
# munged on its three hosts. Tests jobs on one node and on several, with srun and mpirun, a killed task and a cancelled job, and
# that nothing is left of them. Runs inside ./with-build.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
# shellcheck source=test/lib.sh
. "$root/test/lib.sh"
build=$(cd "$DMA_TEST_BIN/../.." && pwd)
# shellcheck source=test/bed/lib.sh
. "$here/lib.sh"
PATH=$PATH:/usr/sbin:/sbin
for tool in slurmctld slurmd sbatch munged; do
    command -v $tool >/dev/null || skip "there is no $tool (Debian packages slurmctld, slurmd, slurm-client, munge)"
done
needs_hosts
# Not in /tmp, because each host has a /tmp of its own.
work=$(mktemp -d "$build/test/bed/none.XXXXXX")
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
"$here/bed" 3 -t 900 -- "$here/slurm_jobs.sh" "$work" "$build"
