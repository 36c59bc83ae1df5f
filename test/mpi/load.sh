#!/bin/bash
# load.sh: which component serves what, for every way of selection. Runs inside ./with-build.
# shellcheck disable=SC1091
set -uo pipefail
here=$(dirname "$0")
. "$here/../lib.sh"
. "$here/common.sh"

allcoll=$(program allcoll) || exit 1
prefer=$(program prefer) || exit 1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_coll_dma_verbose=1

# The output of a run that coll/dma serves, and of one in which it has no part.
served='coll/dma: communicator MPI_COMM_WORLD.*ranks, ready'
right='allcoll: [0-9]+ checks, 0 failed'

# with_us RANKS ARGS...: the data are right, and coll/dma has served the world
with_us() {
    local output
    output=$(launch 60 "$@" 2>&1) || { echo "$output"; return 1; }
    echo "$output"
    grep -Eq "$right" <<<"$output" && grep -Eq "$served" <<<"$output"
}

# tool_case CMD...: a second time if the job crashed after its last check. With the tool interface, the progress thread of Open MPI
# 4.1 may call mca_pmix_ext3x in MPI_Finalize when that has been unloaded: about once in 200 jobs on a busy machine.
tool_case() {
    local output
    if output=$("$@"); then
        echo "$output"
    elif grep -Eq "$right" <<<"$output" && grep -q 'Signal: Segmentation fault' <<<"$output"; then
        "$@"
    else
        echo "$output"
        return 1
    fi
}

# without_us RANKS ARGS...: the data are right, and coll/dma prints nothing
without_us() {
    local output
    output=$(launch 60 "$@" 2>&1) || { echo "$output"; return 1; }
    echo "$output"
    grep -Eq "$right" <<<"$output" && ! grep -q 'coll/dma' <<<"$output"
}

# not_preferred VALUE: an info key that leaves the communicator to others
not_preferred() {
    local output
    output=$(launch 30 2 "$prefer" "$1" 2>&1) || { echo "$output"; return 1; }
    echo "$output"
    grep -q 'prefer: .* 0 failed' <<<"$output" && ! grep -q 'communicator preference' <<<"$output"
}

# says_once PATTERN CMD...: exactly one line of the output matches
says_once() {
    local pattern=$1 output
    shift
    output=$("$@" 2>&1) || true
    echo "$output"
    [ "$(grep -Ec -e "$pattern" <<<"$output")" = 1 ]
}

# whole: the component needs no symbol that Open MPI lacks. The loader would notice a missing one only at the first call.
whole() {
    local component=${OMPI_MCA_mca_base_component_path:?}
    component=${component%%:*}/mca_coll_dma.so
    ldd -r "$component"
    ! ldd -r "$component" 2>&1 | grep 'undefined symbol'
}
ok 'the component is whole' whole

for ranks in 1 2 4; do
    for list in dma dma,basic basic,dma basic,libnbc,dma,tuned ^sm ^sm,han; do
        ok "$ranks ranks, --mca coll $list" with_us $ranks --mca coll $list "$allcoll"
    done
    ok "$ranks ranks, no --mca coll" with_us $ranks "$allcoll"
    for list in basic,tuned,libnbc,self,inter ^dma; do
        ok "$ranks ranks, --mca coll $list" without_us $ranks --mca coll $list "$allcoll"
    done
done
ok 'a singleton' env OMPI_MCA_coll=dma timeout $((60 * ${patience:?})) "$allcoll"

ok 'spawned processes' with_us 2 --mca coll dma "$allcoll" --spawn 2
ok 'spawned processes, without us' without_us 2 --mca coll ^dma "$allcoll" --spawn 2
ok 'the tool interface loads everything first' tool_case with_us 2 --mca coll dma "$allcoll" --mpit
ok 'the tool interface and a list without us' tool_case without_us 2 --mca coll basic,tuned,libnbc,self,inter "$allcoll" --mpit

# An include list without dma is not changed: nothing is added, so MPI cannot start with this one. (Open MPI's message about
# that does not always arrive: its mpirun loses help messages.)
ok 'a short list without us' refuses . launch 30 2 --mca coll basic,self "$prefer" basic
ok 'a name that does not exist' refuses . launch 30 2 --mca coll dma,nosuch "$prefer" dma

# The info key of a communicator.
ours='communicator preference .*ready'
for value in dma dma,basic dma,^sm; do
    ok "info key $value" says "$ours" launch 30 2 "$prefer" $value
done
for value in ^dma basic basic,dma tuned,libnbc basic,^dma; do
    ok "info key $value" not_preferred $value
done

# Another Open MPI: the library reports this version, whatever the component was built with: by a function, and from 6.0 on
# by a text.
cat >"$scratch/other.c" <<'END'
#include <string.h>
const char ompi_version_string[] = "4.0.7";
int PMPI_Get_library_version(char *version, int *length)
{
    strcpy(version, "Open MPI v4.0.7, package: another one");
    *length = (int)strlen(version);
    return 0;
}
END
if "${CC:-cc}" -shared -fPIC -o "$scratch/other.so" "$scratch/other.c"; then
    another=(launch 60 2 -x "LD_PRELOAD=$scratch/other.so" --mca coll dma "$allcoll")
    ok 'another series: says what happens' says 'built for Open MPI .* but this library is "Open MPI v4.0.7". coll/dma is disabled' \
        "${another[@]}"
    ok 'another series: everything works' says "$right" "${another[@]}"
    ok 'another series: one line a node' says_once coll/dma "${another[@]}"
fi
finish
