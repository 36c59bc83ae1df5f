# Read by tests that need several hosts, after test/lib.sh; with `root` and `build`.
# shellcheck shell=bash

# The first call of a communicator goes by the network, for tests that look at it. Random sweeps and first_calls set it anew.
export OMPI_MCA_coll_dma_net_first_calls=0

# Skips the test if this machine cannot have hosts, or if the build has no UCX to reach them.
needs_hosts() {
    local output
    output=$("${root:?}/test/bed/bed" 1 -- true 2>&1)
    [ $? != 77 ] || skip "${output##*$'\n'}"
    # shellcheck source=/dev/null
    . "${build:?}/config/build.env"
    [ "${dma_ucx:?}" != no ] || skip 'this build has no UCX'
}
