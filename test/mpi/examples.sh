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

# ---- power.c, with a folder that stands in for /sys ----

sys=$scratch/sys
clock=$sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq
cap=$sys/class/powercap/intel-rapl:0/constraint_0_power_limit_uw

# machine FILE VALUE: it has this file alone, and a counter of joules
machine() {
    rm -rf "$sys"
    mkdir -p "${clock%/*}" "${cap%/*}"
    echo 5000000 >"$sys/class/powercap/intel-rapl:0/energy_uj"
    echo "$2" >"$1"
}

power() {
    timeout --kill-after=5 $((40 * patience)) mpirun --oversubscribe --bind-to none -n 2 "$build/examples/power" -f "$sys" "$@"
}

# lowers FILE VALUE LOWER: in the windows with it alone; in the end the file is as it was
lowers() {
    local output
    machine "$1" "$2"
    output=$(power -s 0.5 -t 1 2>&1) || { echo "$output"; return 1; }
    echo "$output"
    grep -q "^power: .*: $2, in long calls $3\$" <<<"$output" &&
        [ "$(grep -cE '^power: rank 0, with: [1-9].* us, [1-9][0-9]* times lowered, 0.000 joules' <<<"$output")" = 2 ] &&
        [ "$(grep -cE '^power: rank 0, without: [1-9].* us, 0 times lowered, 0.000 joules' <<<"$output")" = 2 ] &&
        [ "$(cat "$1")" = "$2" ]
}

short_calls() {
    machine "$clock" 3400000
    says 'rank 0, with: .* us, 0 times lowered' power -s 0.2 -t 1e9
}

# becomes FILE VALUE
becomes() {
    local i
    for ((i = 0; i < 400 * patience; i++)); do
        [ "$(head -1 "$1")" != "$2" ] || return 0
        sleep 0.02
    done
    echo "$1 is $(cat "$1")"
    return 1
}

# killed SIGNAL: in a window with a lowered clock, the process that manages it
killed() {
    local job pid status
    machine "$clock" 3400000
    power -s 2 -t 1 >"$scratch/power.out" 2>&1 &
    job=$!
    # the first window is without it
    (becomes "$clock" 2040000)
    status=$?
    for pid in $(pgrep -f "^$build/examples/power -f $sys"); do
        ! grep -qz '^OMPI_COMM_WORLD_LOCAL_RANK=0$' "/proc/$pid/environ" || [ "$(ps -o sid= -p "$pid" | tr -d ' ')" = "$pid" ] || kill "-$1" "$pid"
    done
    wait $job
    [ $status = 0 ] && becomes "$clock" 3400000
}

# Nothing is written where that is not allowed.
dry_run() {
    machine "$clock" 3400000
    # shellcheck disable=SC2016 # for the inner shell
    says 'policy0/scaling_max_freq: 3400000, in long calls 2040000: dry run' unshare -m bash -c 'mount --bind "$1" "$1" &&
        mount -o remount,bind,ro "$1" && shift && timeout 600 mpirun --oversubscribe --bind-to none -n 2 "$@"' - "$sys" "$build/examples/power" \
        -f "$sys" -s 0.3 -t 1 && [ "$(cat "$clock")" = 3400000 ]
}

no_machine() {
    machine "$sys/none" 1
    says 'there is neither a clock nor a cap to lower' power -s 0.1
}

ok 'power: the clock is lowered in long calls alone' lowers "$clock" 3400000 2040000
ok 'power: the cap of the packages is lowered without a clock' lowers "$cap" 250000000 150000000
ok 'power: short calls lower nothing' short_calls
ok 'power: nothing to lower' no_machine
for signal in KILL TERM; do
    ok "power: SIG$signal restores the clock" killed $signal
done
if unshare -m mount --bind "$scratch" "$scratch" 2>/dev/null; then
    ok 'power: a dry run' dry_run
fi
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
