#!/bin/bash
# emu.sh: tests the emulated node. ROCm programs and queues of test programs run on it, it finds violations of its rules, and
# its injected failures happen.
set -euo pipefail
# shellcheck source=test/device/common.sh
. "$(dirname "$0")/../device/common.sh"
stands_at thunk || skip 'ROCm has no thunk here that the emulated node knows how to replace'
bin=$build/test/emu

# on OPTION... CMD: runs CMD on a node, with new folders for logs and statistics
on() {
    rm -rf "$work/log" "$work/stats"
    mkdir "$work/log" "$work/stats"
    EMU_LOG=$work/log EMU_STATS=$work/stats timeout --kill-after=5 $((50 * patience)) "$root/with-build" --build "$build" "$@"
}

# clean OPTION... CMD: CMD succeeds, and the log has no violation
clean() {
    on "$@" || return 1
    ! grep -r ^violation "$work/log"
}

# agents PERSONA GPUS: rocminfo lists that many GPUs
agents() {
    local found
    found=$(on --gpus "$2" --persona "$1" rocminfo | grep -Ec '^  Name: +gfx90a')
    echo "$found agents"
    [ "$found" = "$2" ]
}

# breaks RULE NAME [VARIABLE=VALUE]: the program runs to its end, and the log has this violation
breaks() {
    EMU_STRICT=0 on --gpus 2 env "${@:3}" "$bin/rules" "$2" || return 1
    cat "$work"/log/*
    grep -q "^violation: $1" "$work"/log/*
}

# breaks_on PERSONA RULE NAME: the same for another type of GPU
breaks_on() {
    EMU_STRICT=0 on --gpus 2 --persona "$1" "$bin/rules" "$3" && grep "^violation: $2: " "$work"/log/*
}

# notes TEXT NAME [VARIABLE=VALUE]: the log has no violation except leaks, and this note
notes() {
    EMU_STRICT=0 on --gpus 2 --persona mi250x env "${@:3}" "$bin/rules" "$2" || return 1
    cat "$work"/log/* | sort | head
    grep -q "^note: .*$1" "$work"/log/* && ! cat "$work"/log/* | grep '^violation' | grep -v '^violation: leak'
}

# says_why TEXT NAME: the address is refused, and the log has the reason
says_why() {
    EMU_QUARANTINE=64 breaks unmapped "$2" && grep -q "^note: GPU . cannot reach .*: $1" "$work"/log/*
}

# ends NAME: a strict node ends the process
ends() {
    local status=0
    on --gpus 2 "$bin/rules" "$1" || status=$?
    [ "$status" = 134 ]
}

# gathered GPUS BYTES: by the statistics, every queue has moved this many bytes to its GPU
gathered() {
    local queues bytes
    queues=$(cat "$work"/stats/* | grep -c '^queue .* owner gather destroyed$')
    bytes=$(cat "$work"/stats/* | awk '/ moved gpu/ { print $3, $9, $11 }' | sort -u | wc -l)
    cat "$work"/stats/*
    [ "$queues" = $(($1 * ($1 - 1))) ] && [ "$bytes" = "$queues" ] &&
        ! cat "$work"/stats/* | grep ' moved gpu' | grep -v " bytes $2 "
}

# gather PERSONA GPUS BYTES ROUNDS [engines]
gather() {
    clean --gpus "$2" --persona "$1" "$bin/gather" "${@:2}" && gathered "$2" $(($3 * $4))
}

# The queue of each link is on the engine that the kernel recommends for this link.
on_recommended() {
    gather mi300x 8 64 5 engines >/dev/null &&
        [ "$(cat "$work"/stats/* | awk '/ moved gpu/ && $3 == 0 { print $5, $9 }' | sort -n | tr '\n' ' ')" = \
            '2 gpu3 4 gpu4 6 gpu7 8 gpu5 10 gpu6 12 gpu2 14 gpu1 ' ]
}

# mask PERSONA GPUS FROM LINK MASK: KFD's files recommend these engines for the link
mask() {
    # shellcheck disable=SC2016
    on --gpus "$2" --persona "$1" sh -c 'cat "$EMU_SYSFS/nodes/$1/io_links/$2/properties"' - "$3" "$4" |
        grep -x "recommended_sdma_engine_id_mask $5"
}

# The runtime gets the event of a fault and ends the program.
faults() {
    refuses 'Memory access fault by GPU node-1 .* address 0x123456000' on --gpus 2 "$bin/hip" fault
}

# HIP compiles its kernels once for each type of GPU, and not in every process.
remembers() {
    local before after
    clean --gpus 2 "$bin/hip" || return 1
    before=$(stat -c '%n %i' "$bin"/comgr/cache/*)
    clean --gpus 2 "$bin/hip" || return 1
    after=$(stat -c '%n %i' "$bin"/comgr/cache/*)
    [ -n "$before" ] && [ "$before" = "$after" ]
}

# not_understood VARIABLE=VALUE...: each of these values ends the program before it begins, with a reason
not_understood() {
    local setting said status
    for setting; do
        status=0
        said=$(on --gpus 2 env "$setting" "$bin/hip" 2>&1) || status=$?
        echo "$setting: $status: $said"
        [ $status = 2 ] && [ "$said" = "emulated node: $setting is not something it understands" ] || return 1
    done
}

# CMD has the input of ./with-build, its exit status is returned, and the node is removed when it ends.
stands_in() {
    local status=0 at
    [ "$(echo through | on --gpus 1 cat)" = through ] || return 1
    # shellcheck disable=SC2016
    at=$(on --gpus 1 sh -c 'echo $EMU_NODE; exit 7') || status=$?
    [ "$status" = 7 ] && [ -n "$at" ] && [ ! -e "$at" ] || return 1
    status=0
    # shellcheck disable=SC2016
    on --gpus 1 sh -c 'kill -9 $$' || status=$?
    [ "$status" = 137 ]
}

# Rules of calls. For rules of packets, test_emu_sdma_rules checks that every rule has a case.
each_rule_has_a_test() {
    local rule
    for rule in $(sed -n '/^## Rules/,$s/^| \(`[^|]*\) |.*/\1/p' "$root/test/emu/README.md" | tr -d '`,'); do
        grep -q "^ok [\"']rule ${rule}[:' ]" "$root/test/emu/emu.sh" || { echo "none breaks $rule"; return 1; }
    done
}

ok 'rocminfo lists 1 GPU' agents mi250x 1
ok 'rocminfo lists 8 GPUs' agents mi300x 8
# The driver's numbers include hidden GPUs.
# shellcheck disable=SC2016
ok 'files of hidden GPUs cannot be read' env EMU_HIDE=0,7 "$root/with-build" --build "$build" --gpus 8 sh -c '
    cd "$EMU_SYSFS/nodes" && [ "$(ls | wc -l)" = 9 ] && cat 0/gpu_id 2/properties 7/io_links/0/properties >/dev/null &&
        ! cat 1/gpu_id 2>/dev/null && ! cat 8/properties 2>/dev/null && ! cat 1/io_links/0/properties 2>/dev/null'
ok "KFD's files recommend an engine per link on 8 MI300X" mask mi300x 8 1 1 16384
# shellcheck disable=SC2016
ok 'the runtime does not see hidden GPUs' env EMU_HIDE=0,7 bash -c '[ "$("$@" | grep -Ec "^  Name: +gfx90a")" = 6 ]' - \
    "$root/with-build" --build "$build" --gpus 8 rocminfo
ok "KFD's files recommend an engine that is fused off on 8 MI308X" mask mi308x 8 1 1 128
ok "KFD's files recommend the pool elsewhere" mask mi250x 8 1 1 28
ok "KFD's files recommend host-facing engines for the host" mask mi300x 4 2 0 3
ok 'HIP programs run on 2 MI250X' clean --gpus 2 --persona mi250x "$bin/hip"
ok 'HIP programs run on 2 MI100' env EMU_EARLY_POLLS=0 "$root/with-build" --build "$build" --gpus 2 --persona mi100 "$bin/hip"
ok 'a POLL may end early there' refuses 'hip.c:.* not so: ' on --gpus 2 --persona mi100 "$bin/hip"
ok 'HIP programs run on 8 MI300X' clean --gpus 8 --persona mi300x "$bin/hip"
ok "HIP's kernels are compiled once" remembers
ok 'HIP programs run with copies in order, and with delays' env EMU_IN_FLIGHT=1 EMU_DELAY_US=200 \
    "$root/with-build" --build "$build" --gpus 2 "$bin/hip"
ok 'an all-gather of 8 processes on their own queues, MI250X' gather mi250x 8 100000 10
ok 'an all-gather of 8 processes on their own queues, MI300X' gather mi300x 8 100000 10
ok 'an all-gather of 3 processes with other choices' env EMU_SEED=7 "$root/with-build" --build "$build" --gpus 3 "$bin/gather" 3 5001 20
ok 'queues on the engines that are recommended' on_recommended
ok 'a fault reaches the runtime' faults
ok 'with-build stands in for the command' stands_in
ok 'values that make no sense' not_understood EMU_SEED=x EMU_SLICE_US=999 EMU_IN_FLIGHT=0 EMU_STALE_LOOKS=-1 EMU_DELAY_US=1s \
    EMU_FAULT_PACKET=-1 EMU_RESET_PACKET=-1 EMU_KFD_MINOR=100 EMU_KFD_REFUSES=memories EMU_HIDE=8 EMU_HIDE=1, EMU_EARLY_POLLS=-1 \
    EMU_LAX=opcode EMU_LAX=race,all EMU_LAX=rac
ok 'a version of ROCr that makes no sense' refuses '^emulated node: EMU_ROCR_MINOR=x is not something it understands$' \
    env EMU_ROCR_MINOR=x "$root/with-build" --build "$build" --gpus 2 "$bin/hip"
ok 'HIP programs run above a newer ROCr' env EMU_ROCR_MINOR=31 "$root/with-build" --build "$build" --gpus 2 "$bin/hip"
ok 'nothing wrong, nothing said' clean --gpus 2 "$bin/rules" nothing-wrong
ok 'a forked child has no node' clean --gpus 2 "$bin/rules" forked
ok 'events' clean --gpus 2 "$bin/rules" events
ok 'doorbells of a compute queue in any order' clean --gpus 2 "$bin/rules" rung-in-any-order
ok 'registers of compute units' clean --gpus 2 "$bin/rules" registers
ok 'queues that stand still' clean --gpus 2 "$bin/rules" stopped
ok 'statistics on demand' clean --gpus 2 "$bin/rules" statistics
ok 'eight queues per engine for all processes' notes 'no queue is free' shared-engines
ok 'eight queues on an engine that they name' notes 'no queue is free' by-engine
ok 'each rule has a test' each_rule_has_a_test
ok 'rule released' breaks released released
ok 'rule ring: size' breaks ring ring-size
ok 'rule ring: mapping' breaks ring ring-mapping
ok 'rule ring: execution' breaks ring ring-execution
ok 'rule engine' breaks_on mi308x engine missing-engine
ok 'rule ipc-kind: host' breaks 'ipc-kind: .*: host memory' ipc-host
ok 'rule ipc-kind: part' breaks 'ipc-kind: .*: not the start' ipc-part
ok 'rule ipc-kind: registered' breaks 'ipc-kind: .*: registered host memory' ipc-registered
ok 'rule ipc-kind: imported' breaks 'ipc-kind: .*: imported memory' ipc-imported
ok 'rule free' breaks free free-twice
ok 'rule queue' breaks queue destroy-twice
ok 'rule unmapped: freed' says_why 'it was freed' freed
ok 'rule unmapped: not mapped' says_why 'it is not mapped for this GPU' unmapped
ok 'rule unmapped: mapped for another' says_why 'it is not mapped for this GPU' other-gpu
ok "rule unmapped: the CPU's address" says_why "it is the CPU's address" cpu-address
ok 'rule opcode' breaks opcode bad-packet
ok 'rule aql-packet' breaks aql-packet bad-aql-packet
ok 'rule kernel' breaks kernel unknown-kernel
ok 'rule peer' breaks_on mi300x peer host-facing
ok 'rule destroy-busy' breaks destroy-busy destroy-in-poll
ok 'rule leak' breaks leak leak
ok 'a strict node ends who calls what is wrong' ends ring-size
ok 'freed addresses are used again' clean --gpus 2 "$bin/rules" used-again
ok 'a strict node ends who queues what is wrong' ends unmapped
ok 'import of what was freed fails' notes 'does not have any more' ipc-freed
ok 'import where something freed is open fails' notes 'which is still open' ipc-stale
ok 'faults reach who waits for them' breaks unmapped fault-event
ok 'injection: engine reset' notes 'was reset' engine-reset EMU_RESET_PACKET=2
ok 'injection: fault' notes 'injected' injected-fault EMU_FAULT_PACKET=1
ok 'injection: queue creation' notes 'creation of a queue fails' few-queues EMU_FAIL_QUEUE_AFTER=2
ok 'injection: IPC import' notes 'import of an IPC handle fails' few-imports EMU_FAIL_IMPORT_AFTER=1
finish
