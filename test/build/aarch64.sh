#!/bin/bash
# aarch64.sh: a build for 64-bit Arm with Debian's cross compiler, its unit tests in QEMU, and random jobs whose ranks run
# there, with this machine's mpirun. QEMU keeps this machine's order of memory accesses, which is stricter than Arm's. So the
# test shows that nothing depends on x86 (instructions, layouts, widths, other builds of Open MPI and UCX). It does not show
# that barriers are in place: ThreadSanitizer and the models do.
set -uo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=test/lib.sh
. "$root/test/lib.sh"
cd "$root" || exit 1
build=./build-aarch64

# These take a minute or more in QEMU.
long='test_(choose|cluster|cluster_comm|device|device_freed|device_persistent|device_pieces|device_scratch|gpu_fit|interp|plans|sdma_bound|ucx_tl_faults)'
# Cases that need what QEMU's user mode does not emulate, and what that is.
not_emulated='
cards_are_checked              setrlimit(RLIMIT_AS)
cross_memory_probe             process_vm_readv
plain_memory                   where the heap begins, in /proc/self/stat
heap_and_stack_need_no_runtime where the heap begins, in /proc/self/stat
files_that_may_not_be_large    writes files itself where a program reads /proc/self
child                          madvise(MADV_DONTFORK)
the_link_goes_down             namespaces of networks
'

make_all() {
    tools/aarch64.sh configure "$build" --enable-werror 'CFLAGS=-g1 -O2' &&
        make -C "$build" --no-print-directory -j"$(nproc)" all unit examples/allgather_check test/mpi/sweep
}

# of_machine FILE: it is not made by this machine's compiler
of_machine() {
    readelf -h "$1" | grep 'Machine: *AArch64'
}

# unit NAME: each case passes, except those that cannot
unit() {
    local output bad
    output=$(CK_DEFAULT_TIMEOUT=15 CK_TIMEOUT_MULTIPLIER=20 timeout 300 tools/aarch64.sh run "$build/test/unit/$1" 2>&1)
    printf '%s\n' "$output"
    grep -qE '^[0-9]+%: Checks: [1-9]' <<<"$output" || return 1
    bad=$(sed -nE 's/^[^:]*:[0-9]+:[FE]:[^:]*:([^:]*):.*/\1/p' <<<"$output" | sort -u | grep -vxFf <(awk 'NF { print $1 }' <<<"$not_emulated"))
    [ -z "$bad" ]
}

# job RANKS PROGRAM...: ranks are programs in QEMU
job() {
    timeout 300 mpirun --oversubscribe --bind-to none -n "$1" --mca coll dma,basic,libnbc,self --mca pml ob1 --mca btl self,tcp \
        --mca mpi_yield_when_idle 1 --mca coll_dma_verbose 1 tools/aarch64.sh run "${@:2}"
}

# All data are right, and coll/dma served the job.
served() {
    local output
    output=$(job 2 "$build/examples/allgather_check" 2>&1) || return 1
    printf '%s\n' "$output"
    grep -q 'coll/dma: .* 2 ranks, ready' <<<"$output" && grep -q ' 0 wrong$' <<<"$output" && ! grep ' [1-9][0-9]* wrong$' <<<"$output"
}

# sweep RANKS CASES
sweep() {
    says "^$2 passed, 0 failed" job "$1" "$build/test/mpi/sweep" -s "$1" -n "$2" -w 200
}

why=$(tools/aarch64.sh root) || skip "$(tail -n 1 <<<"$why")"
ok 'builds without a warning' make_all
ok 'is for another processor' of_machine "$build/.libs/mca_coll_dma.so"
mapfile -t programs < <(make -s -C "$build" print-unit-tests | sed 's,.*/,,' | grep -vxE "$long")
for program in "${programs[@]}"; do
    ok "$program" unit "$program"
done
ok 'a job of two ranks' served
for ranks in 2 3 5; do
    ok "random calls on $ranks ranks" sweep $ranks 150
done
finish
