#!/bin/bash
# series.sh: what differs between the series of Open MPI: sizes of objects, datatypes that are freed early, sessions, revoked
# communicators, large counts, ranks without coll/dma, the components beside it. Runs inside ./with-build.
# shellcheck disable=SC1091
set -uo pipefail
here=$(dirname "$0")
. "$here/../lib.sh"
. "$here/../mpi/common.sh"
bin=${DMA_TEST_BIN:?}/../series
allcoll=$(program allcoll) && dupfree=$(program dupfree) && lacking=$(program lacking) || exit 1
export OMPI_MCA_mpi_yield_when_idle=1
ob1=(--mca pml ob1)
ucx=(--mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any)

# has PROGRAM: this series has what the program is about
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

# Slots are taken and returned many times.
ok 'communicators leave nothing behind' launch 60 3 --mca coll dma "$dupfree" 2000

# MPI_Init collects in different ways what processes publish, and PMIx has other answers for what is missing.
for form in blocking nonblocking persistent; do
    ok "a rank has not loaded coll/dma, $form" launch 60 3 "$lacking" 2 $form
done

# ready TEXT CMD...: the output has TEXT, and coll/dma has served it
ready() {
    local text=$1 output
    shift
    output=$("$@" 2>&1) || { echo "$output"; return 1; }
    echo "$output"
    grep -Eq "$text" <<<"$output" && grep -Eq 'coll/dma: communicator .*ready' <<<"$output"
}

# patient CMD...: once more, if Open MPI hung where a session begins or ends and coll/dma had no part in that. 5.0.7 hangs
# there in one run of ten, without coll/dma as well.
patient() {
    local output status tries=5
    while :; do
        status=0
        output=$("$@" 2>&1) || status=$?
        echo "$output"
        [ $status != 0 ] && [ $((--tries)) -gt 0 ] && grep -q '^sessions: .* hangs without coll/dma$' <<<"$output" || return $status
    done
}

if has sessions; then
    # The pml ucx of Open MPI 5.0 has no sessions.
    pmls='ob1 ucx'
    [[ $(mpirun --version) != *'Open MPI) 5.0'* ]] || pmls=ob1
    for pml in $pmls; do
        declare -n args=$pml
        ok "sessions, pml $pml" ready 'sessions: .* 0 failed' \
            patient launch 60 3 "${args[@]}" --mca coll dma --mca coll_dma_verbose 1 "$bin/sessions"
    done
    ok 'sessions, no --mca coll' ready 'sessions: .* 0 failed' \
        patient launch 60 2 --mca coll_dma_verbose 1 "$bin/sessions"
    ok 'sessions, stepping aside' says 'sessions: .* 0 failed' \
        patient launch 60 2 --mca coll dma --mca coll_dma_arena_bytes 0 "$bin/sessions"
fi

# A rank that waits in a collective of a revoked communicator returns.
if has revoke; then
    ok 'a revoked communicator' says 'revoke: .* 0 failed' launch 30 3 --with-ft ulfm "${ob1[@]}" "$bin/revoke"
    # What is not served is counted.
    counted() {
        local read status
        read=$(mktemp -d)
        launch 60 3 --with-ft ulfm "${ob1[@]}" --mca coll dma -x DMA_TEST_COUNTERS="$read" \
            -x LD_PRELOAD="$bin/../mpi/libcounters_shim.so" "$allcoll"
        status=$?
        cat "$read"/*
        [ $status = 0 ] && [ "$(cat "$read"/* | grep -c '^reason_comm_kind [1-9]')" = 3 ] || status=1
        rm -rf "$read"
        return $status
    }
    ok 'left out: jobs that continue after failures' counted
fi

# Events of MPI_T, against the counters: calls on cores, also with ranks of one node that share a core.
if has events; then
    for ranks in 1 2 4; do
        ok "events of calls, $ranks ranks" says 'events: .* 0 failed' launch 60 $ranks "${ob1[@]}" --mca coll dma "$bin/events"
    done
    ok 'the example of events' says 'variant .* calls, predicted' launch 60 2 "${ob1[@]}" --mca coll dma "$bin/../../examples/events"
fi

if has counts; then
    ok 'more than 2^31 elements' ready 'counts: .* 0 failed' \
        launch 280 2 --mca coll dma --mca coll_dma_verbose 1 "$bin/counts" some
fi

# Every component of this Open MPI beside coll/dma, in one job. All collectives are right, coll/dma serves its own, and no
# component is between the user and coll/dma.
components=$(ompi_info --parsable | sed -n 's/^mca:coll:\([a-z0-9]*\):version:.*/\1/p' | sort -u)
beside=(--mca coll_han_priority 35 --mca coll_xhc_priority 40 --mca coll_acoll_priority 50 --mca coll_adapt_priority 40
    --mca coll_acoll_comm_size_thresh 2 --mca coll_ucc_enable 1 --mca coll_ucc_priority 60 --mca coll_sm_priority 45
    --mca coll_dma_verbose 1 --mca coll_base_verbose 20)

# together NAMES CMD...: all data are right, and each of these components is used, too
together() {
    local names=$1 name output status=0
    shift
    output=$(ready 'allcoll: [0-9]+ checks, 0 failed' "$@") || status=1
    for name in $names; do
        grep -Eq "selecting +$name, priority +[0-9]+, Enabled" <<<"$output" || { echo "$name is not in use"; status=1; }
    done
    [ $status = 0 ] || grep -E 'allcoll|coll/dma|selecting|not in use|rror' <<<"$output" | head -n 60
    return $status
}

# han is for several nodes, and accelerator for builds with one. Elsewhere they decline, and it is enough that they are
# allowed.
in_use=
for name in xhc acoll ucc; do
    ! grep -qx $name <<<"$components" || in_use+=" $name"
done
ok "beside $(echo "$components" | grep -v '^dma$' | paste -sd' '), of which in use:$in_use" together "$in_use" \
    launch 90 4 "${beside[@]}" "$allcoll"
for name in accelerator han xhc acoll ucc; do
    if grep -qx $name <<<"$components"; then
        [[ " $in_use " = *" $name "* ]] && used=$name || used=
        ok "with $name alone beside us" together "$used" \
            launch 90 3 "${beside[@]}" --mca coll "dma,$name,tuned,basic,libnbc,self,inter" "$allcoll"
    fi
done

# lacking_far FORM: on two hosts. In 5.0 the ranks of the other host know only after a minute. The limit ends only what hangs.
lacking_far() {
    says 'lacking: .* 0 failed$' "$here/../bed/bed" 2 -t 400 -- mpirun -n 4 --map-by ppr:2:node --mca pml ob1 \
        --mca coll_dma_net_first_calls 0 "$lacking" 3 "$1"
}
if [[ $(mpirun --version) == *'Open MPI) 5.0'* ]] && "$here/../bed/bed" 1 -- true >/dev/null 2>&1; then
    ok 'a rank on another host has not loaded coll/dma, blocking' lacking_far blocking
    ok 'a rank on another host has not loaded coll/dma, and calls are posted' lacking_far in-vain
fi

# Not with adapt above it: there Open MPI 6.0.0rc2 crashes, without coll/dma as well. And not the han of 4.1, which has wrong
# data.
if [[ $(mpirun --version) != *'Open MPI) 4.1'* ]] && grep -qx han <<<"$components" && "$here/../bed/bed" 1 -- true >/dev/null 2>&1; then
    ok 'on two hosts, with han in use' together han "$here/../bed/bed" 2 -- mpirun -n 4 --map-by ppr:2:node \
        --mca coll_han_priority 35 --mca coll_dma_net_first_calls 0 --mca coll_dma_verbose 1 --mca coll_base_verbose 20 "$allcoll"
fi

# Modules are enabled from the lowest priority to the highest, so the last one is the one that users call.
on_top() {
    local output
    output=$(launch 60 2 "${beside[@]}" "$allcoll" 2>&1)
    grep -E 'priority|selecting|component available' <<<"$output" | head -n 40
    [ "$(sed -n 's/.*coll:base:comm_select: selecting *\([a-z]*\), priority *\([0-9]*\).*/\2 \1/p' <<<"$output" |
        grep -v ' self$' | sort -n | tail -n 1)" = '91 dma' ]
}
ok 'we are on top' on_top
finish
