#!/bin/bash
# examples.sh: builds every example outside of the tree with the command in its comment, and runs it: on the host; with
# collectives that move nothing, which it must notice; and on the emulated node. Runs inside ./with-build.
# shellcheck disable=SC1091
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
. "$here/../lib.sh"
. "$here/common.sh"

build=${DMA_TEST_BIN%/test/mpi}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cp "$root"/examples/* "$scratch/" 2>/dev/null
cd "$scratch" || exit 1
export OMPI_MCA_coll=dma OMPI_MCA_mpi_yield_when_idle=1

# command_of FILE: the command in its comment that builds it
command_of() {
    sed -n 's/^[ *!]*\(mpi\(cc\|fort\) .*\) && mpirun .*/\1/p' "$1"
}

built() {
    local command
    command=$(command_of "$1")
    command="${command/ -O2/ -O2 -Wall -Wextra -Werror}"
    [[ $1 != *.f90 ]] || command="${command/ -Wextra/ -Wextra -Wno-compare-reals}"
    echo "$command"
    # shellcheck disable=SC2086
    $command
}

# right MEMORY CMD...: the command succeeds, and its one line says that the data are right
right() {
    local memory=$1 output
    shift
    output=$("$@" 2>&1) || { echo "$output"; return 1; }
    echo "$output"
    [ "$(grep -cE "^[a-z0-9_.]+: 4 ranks, $memory memory, [1-9][0-9]* values checked, 0 wrong$" <<<"$output")" = 1 ]
}

served() {
    says 'coll/dma: communicator MPI_COMM_WORLD .*: 4 ranks, ready' launch 30 4 --mca coll_dma_verbose 1 "$@"
}

notices() {
    refuses '^[a-z0-9_.]+: 4 ranks, host memory, [0-9]+ values checked, [1-9][0-9]* wrong$' \
        launch 30 4 -x LD_PRELOAD="$build/test/mpi/liblazy_shim.so" "$@"
}

# The data go between the devices, not through the host.
on_node() {
    says 'device 3 is served by the engine sdma' timeout --kill-after=5 $((40 * ${patience:?})) "$root/with-build" --build "$build" --gpus 4 mpirun --oversubscribe \
        --bind-to none -n 4 --mca coll_dma_verbose 2 "$@"
}

# Each example has a row.
described() {
    local file missing=0
    for file in *.c *.f90 *.py; do
        [ "${file%.py}" = example ] || grep -q "\`$file\`" README.md || {
            echo "$file is not in examples/README.md"
            missing=1
        }
    done
    return $missing
}

short() {
    local long
    long=$(wc -l -- *.c *.f90 *.py | awk '$2 != "total" && $1 > 150')
    echo "$long"
    [ -z "$long" ]
}

ok 'README.md has them all' described
ok 'none is long' short
for file in *.c; do
    [ -n "$(command_of "$file")" ] || continue
    name=${file%.c}
    ok "$name: built" built "$file"
    ok "$name: right, served by coll/dma" right host served "./$name"
    ok "$name: notices when nothing moves" notices "./$name"
    [ ! -e "${DMA_TEST_EMU:-}/collective" ] || ok "$name: right in device memory" right device on_node "./$name" --device
done
if command -v mpifort >/dev/null && mpifort --version >/dev/null 2>&1; then
    for file in *.f90; do
        ok "$file: built" built "$file"
        ok "$file: right, served by coll/dma" right host served "./${file%.f90}_f"
    done
else
    echo 'not tried: Fortran, because there is no gfortran'
fi
python=
for candidate in python3 /usr/bin/python3; do
    ! "$candidate" -c 'import mpi4py, numpy' 2>/dev/null || python=${python:-$candidate}
done
if [ -n "$python" ]; then
    # Replaces CuPy: the arrays of its devices are in host memory.
    mkdir cupy
    cat >cupy/__init__.py <<'CUPY'
from types import SimpleNamespace as Space
from numpy import array as asarray, array as asnumpy
cuda = Space(Device=lambda number: Space(use=lambda: None), runtime=Space(getDeviceCount=lambda: 1),
             get_current_stream=lambda: Space(synchronize=lambda: None))
CUPY
    for file in *.py; do
        [ "$file" != example.py ] || continue
        ok "$file: right, served by coll/dma" right host served "$python" "$file"
        ok "$file: notices when nothing moves" notices "$python" "$file"
        ok "$file: right with arrays of CuPy" right device launch 30 4 "$python" "$file" --device
    done
else
    echo 'not tried: Python, because there is no mpi4py'
fi
finish
