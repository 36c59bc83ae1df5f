# shellcheck shell=bash
# Shared by the scripts that run test programs under mpirun; sourced. They run inside ./with-build, which sets $DMA_TEST_BIN
# to the folder of the programs.

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# Two mpiruns of one user that begin at the same time can use the same session directory. So each suite of ./check has a
# folder for them.
[ ! -d "${DMA_SUITE_TMPDIR:-}" ] || export TMPDIR=$DMA_SUITE_TMPDIR
passed=0 failed=0

# program NAME: path of a test program
program() {
    local here=${BASH_SOURCE[0]%/*} dir
    for dir in "${DMA_TEST_BIN:-}" "${DMA_TEST_BIN:-}/test/mpi" "${DMA_TEST_BIN:-}/mpi" "$here/../../build/test/mpi"; do
        if [ -e "$dir/$1" ]; then
            echo "$dir/$1"
            return
        fi
    done
    echo "no test program $1: set DMA_TEST_BIN or run ./check" >&2
    return 1
}

# host_variants: the names of the algorithms for host memory
host_variants() {
    local tests
    tests=$(dirname "$(program sweep)") || return 1
    "${tests%/test/mpi}/tools/params_doc" --host-variants
}

# The limits end only what hangs, however busy the machine is.
export patience=10

# launch SECONDS RANKS ARGS...: mpirun as all tests use it. On an idle machine it takes less than SECONDS. After `patience`
# times as long, it is ended with everything that it has started.
launch() {
    local seconds=$(($1 * patience)) ranks=$2
    shift 2
    timeout --kill-after=5 "$seconds" mpirun --oversubscribe --bind-to none -n "$ranks" "$@"
}

# verdict TEXT STATUS: counts a test, and reports a failure
verdict() {
    if [ "$2" = 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $1"
    fi
}

# finish: the last line and the exit status
finish() {
    echo "$passed passed, $failed failed"
    [ "$failed" = 0 ]
    exit
}
