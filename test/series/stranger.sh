#!/bin/bash
# stranger.sh COMPONENT BUILD: the loader refuses a component that was built for another series of Open MPI, without a crash,
# and the job runs without it.
# Read by wrong.sh, which runs it here and in the roots of other series.
set -uo pipefail
component=$1
build=$(cd "$2" && pwd)
root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=test/lib.sh
. "$root/test/lib.sh"
# shellcheck source=/dev/null
. "$build/config/build.env"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$component" "$work/mca_coll_dma.so"
export OMPI_MCA_mca_base_component_path=$work${dma_ompi_component_rest:-}
[ -z "${dma_pmix_component_dir:-}" ] || export PMIX_MCA_mca_base_component_path=$dma_pmix_component_dir
export OMPI_MCA_coll_dma_verbose=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

works_without() {
    local output
    output=$(timeout 600 mpirun --oversubscribe --bind-to none -n 2 "$@" "$build/examples/allgather_check" 2>&1) ||
        { echo "$output"; return 1; }
    echo "$output"
    grep -q ' 0 wrong' <<<"$output" && ! grep -q 'coll/dma' <<<"$output"
}

# The loader could load it only if it found all the libraries that the component names.
refused() {
    ldd "$work/mca_coll_dma.so"
    timeout 600 ompi_info --parsable | grep '^mca:coll:tuned:' >/dev/null && ! timeout 600 ompi_info --parsable | grep '^mca:coll:dma:'
}

ok 'ompi_info works without it' refused
ok 'a job works without it' works_without
ok 'and when others are named, too' works_without --mca coll tuned,basic,libnbc,self,inter
finish
