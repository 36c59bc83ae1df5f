#!/bin/bash
# install.sh BUILD: `make install` into Open MPI's own folders, in earnest, and then, under mpirun, what it tells the user to
# do. Only in a root of ./check --series, which belongs to the test.
set -uo pipefail
build=$(cd "$1" && pwd)
root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=test/lib.sh
. "$root/test/lib.sh"
# shellcheck source=/dev/null
. "$build/config/build.env"
[ -n "${DMA_SERIES_ROOT:-}" ] || skip 'this test installs into Open MPI, which is done only in a root of another series'
work=$(mktemp -d)
log=$work/install
trap 'rm -rf "$work"; make -s -C "$build" uninstall >/dev/null' EXIT
unset OMPI_MCA_mca_base_component_path PMIX_MCA_mca_base_component_path

installs() {
    make -s -C "$build" install >"$log" 2>&1 || { cat "$log"; return 1; }
    cat "$log"
    [ -e "${dma_ompi_component_dir:?}/mca_coll_dma.so" ]
}

singleton() {
    ompi_info --parsable | grep '^mca:coll:dma:version:'
}

# Exactly what the text tells the user to do.
as_told() {
    local lines
    lines=$(sed -n 's/^ *\(\. .*env\.sh\)$/\1;/p' "$log")
    echo "$lines mpirun --mca coll dma PROGRAM"
    [ -n "$(sed -n '/mpirun --mca coll dma PROGRAM/p' "$log")" ] || return 1
    bash -c "$lines mpirun --oversubscribe -n 2 --mca coll dma --mca coll_dma_verbose 1 '$build/examples/allgather_check'" \
        >"$work/run" 2>&1 || { cat "$work/run"; return 1; }
    cat "$work/run"
    grep -q 'coll/dma: communicator MPI_COMM_WORLD .*2 ranks, ready' "$work/run" && ! grep -q 'bad prefix' "$work/run"
}

# If the text says that nothing need be set, nothing is set. If it says that something must be set, it does not work without.
needed() {
    local output
    output=$(timeout 600 mpirun --oversubscribe -n 2 --mca coll_dma_verbose 1 "$build/examples/allgather_check" 2>&1)
    echo "$output"
    if grep -q '/env\.sh$' "$log"; then
        ! grep -q 'coll/dma: communicator' <<<"$output"
    else
        grep -q 'coll/dma: communicator MPI_COMM_WORLD .*ready' <<<"$output"
    fi
}

# What a user asks says the same as the text.
info_agrees() {
    local output
    output=$("$build/tools/info/coll_dma_info" 2>&1)
    echo "$output"
    if grep -q '/env\.sh$' "$log"; then
        grep -q 'under mpirun.*env\.sh' <<<"$output"
    else
        ! grep -q 'env\.sh' <<<"$output"
    fi
}

ok 'make install' installs
ok 'ompi_info finds it' singleton
ok 'mpirun finds it, set up as make install says' as_told
ok 'and only what is needed is said' needed
ok 'coll_dma_info says it, too' info_agrees
finish
