#!/bin/bash
# wrong.sh: each component built here, for any series, in every other series: the loader refuses it. Uses the builds that
# ./check --series leaves. Status 77 if there is only one.
set -uo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root" || exit
# shellcheck source=test/lib.sh
. test/lib.sh

declare -A tree=()
[ ! -e build/mca/mca_coll_dma.so ] || tree[own]=.
for at in build-series-*/root/coll-dma; do
    series=${at#build-series-}
    [ ! -e "$at/build/mca/mca_coll_dma.so" ] || tree[${series%%/*}]=$at
done
[ ${#tree[@]} -gt 1 ] || skip 'there is no build for another series to try: see ./check --series'

# Whether two builds are of the same series, for which this test says nothing.
same() {
    cmp -s <(grep ^dma_ompi_series= "${tree[$1]}/build/config/build.env") \
        <(grep ^dma_ompi_series= "${tree[$2]}/build/config/build.env")
}

# stranger BUILT-FOR RUN-IN
stranger() {
    local at=${tree[$2]} built=${tree[$1]}/build/.libs/mca_coll_dma.so
    if [ "$2" = own ]; then
        test/series/stranger.sh "$built" build
    else
        cp "$built" "$at/stranger.so"
        tools/series.sh enter "$2" test/series/stranger.sh stranger.so build
    fi
}

for built in "${!tree[@]}"; do
    for run in "${!tree[@]}"; do
        [ "$built" = "$run" ] || same "$built" "$run" || ok "built for $built, run in $run" stranger "$built" "$run"
    done
done
finish
