#!/bin/bash
# series.sh [full]: what differs between the series of Open MPI: the sizes of its objects, datatypes freed early, sessions,
# large counts, the components beside us. With `full`, large counts in all forms. Runs inside ./with-build.
# shellcheck disable=SC1091
set -uo pipefail
here=$(dirname "$0")
. "$here/../lib.sh"
. "$here/../mpi/common.sh"
bin=${DMA_TEST_BIN:?}/../series
allcoll=$(program allcoll) && dupfree=$(program dupfree) || exit 1
export OMPI_MCA_mpi_yield_when_idle=1
ob1=(--mca pml ob1)
ucx=(--mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any)

# has PROGRAM: what it is about exists in this series
has() {
    local status=0
    "$bin/$1" >/dev/null 2>&1 </dev/null || status=$?
    [ $status != 77 ]
}

ok 'the sizes of objects are those of the library' "$bin/layout"

for ranks in 2 3; do
    ok "datatypes freed early, pml ob1, $ranks ranks" says 'early: .* 0 failed' \
        launch 60 $ranks "${ob1[@]}" --mca coll dma "$bin/early"
    ok "datatypes freed early, pml ucx, $ranks ranks" says 'early: .* 0 failed' \
        launch 60 $ranks "${ucx[@]}" --mca coll dma "$bin/early"
done
ok 'datatypes freed early, stepping aside' says 'early: .* 0 failed' \
    launch 60 2 "${ucx[@]}" --mca coll dma --mca coll_dma_arena_bytes 0 "$bin/early"

# Slots taken and given back, many times.
ok 'communicators leave nothing behind' launch 60 3 --mca coll dma "$dupfree" 2000

# ready TEXT CMD...: TEXT, and we have served it
ready() {
    local text=$1 output
    shift
    output=$("$@" 2>&1) || { echo "$output"; return 1; }
    echo "$output"
    grep -Eq "$text" <<<"$output" && grep -Eq 'coll/dma: communicator .*ready' <<<"$output"
}

if has sessions; then
    # Without us, too, two sessions at once hang in one run of eight in Open MPI 5.0.7, and its pml ucx has no sessions.
    parts=12i pmls='ob1 ucx'
    [[ $(mpirun --version) != *'Open MPI) 5.0'* ]] || parts=1i pmls=ob1
    for pml in $pmls; do
        declare -n args=$pml
        ok "sessions, pml $pml" ready 'sessions: .* 0 failed' \
            launch 60 3 "${args[@]}" --mca coll dma --mca coll_dma_verbose 1 "$bin/sessions" $parts
    done
    ok 'sessions, no --mca coll' ready 'sessions: .* 0 failed' \
        launch 60 2 --mca coll_dma_verbose 1 "$bin/sessions" $parts
    ok 'sessions, stepping aside' says 'sessions: .* 0 failed' \
        launch 60 2 --mca coll dma --mca coll_dma_arena_bytes 0 "$bin/sessions" $parts
fi

if has counts; then
    some=some
    [ "${1:-}" != full ] || some=
    # shellcheck disable=SC2086
    ok 'more than 2^31 elements' ready 'counts: .* 0 failed' \
        launch 280 2 --mca coll dma --mca coll_dma_verbose 1 "$bin/counts" $some
    if [ -z "$some" ]; then
        ok 'more than 2^31 elements, through shared memory' ready 'counts: .* 0 failed' \
            launch 280 2 --mca coll dma --mca coll_dma_verbose 1 --mca coll_dma_cross_memory 0 "$bin/counts" some
        ok 'more than 2^31 elements, by messages' says 'counts: .* 0 failed' \
            launch 280 2 --mca coll dma --mca coll_dma_arena_bytes 0 "$bin/counts" some
    fi
fi

# Every component that this Open MPI has, beside us in one job: all collectives are right, ours are ours, and nobody is
# between the user and us.
components=$(ompi_info --parsable | sed -n 's/^mca:coll:\([a-z0-9]*\):version:.*/\1/p' | sort -u)
beside=(--mca coll_han_priority 35 --mca coll_xhc_priority 40 --mca coll_acoll_priority 50 --mca coll_adapt_priority 40
    --mca coll_ucc_enable 1 --mca coll_ucc_priority 60 --mca coll_sm_priority 45 --mca coll_dma_verbose 1)
ok "beside $(echo "$components" | grep -v '^dma$' | paste -sd' ')" ready 'allcoll: [0-9]+ checks, 0 failed' \
    launch 90 4 "${beside[@]}" "$allcoll"
for name in accelerator han xhc acoll ucc; do
    if grep -qx $name <<<"$components"; then
        ok "with $name alone beside us" ready 'allcoll: [0-9]+ checks, 0 failed' \
            launch 90 3 "${beside[@]}" --mca coll "dma,$name,tuned,basic,libnbc,self,inter" "$allcoll"
    fi
done

# Modules are enabled from the lowest priority to the highest, so that the last to be named is the one that users meet.
on_top() {
    local output
    output=$(launch 60 2 "${beside[@]}" --mca coll_base_verbose 20 "$allcoll" 2>&1)
    grep -E 'priority|selecting|component available' <<<"$output" | head -n 40
    [ "$(sed -n 's/.*coll:base:comm_select: selecting *\([a-z]*\), priority *\([0-9]*\).*/\2 \1/p' <<<"$output" |
        grep -v ' self$' | sort -n | tail -n 1)" = '91 dma' ]
}
ok 'we are on top' on_top
finish
