#!/bin/bash
# foreign.sh [BUILD [KFDTEST...]]: runs commands of AMD's own programs at each door of the emulated node that this build has,
# with all rules, and without the rules that AMD's programs break (EMU_LAX).
#
# latte.c repeats the commands of the DMA-Latte artifact: the variants, signals and triggers of its program. The number of
# packets and doorbells of each is checked.
#
# KFDTEST, or $DMA_KFDTEST with colons in between, are built programs `kfdtest`, AMD's tests of its driver and its thunk. A
# program that is linked with libhsakmt.so.1 must have the installed version. Only tests without shaders, and without packets
# for compute queues other than AQL, are run.
set -uo pipefail
# shellcheck source=test/device/common.sh
. "$(dirname "$0")/../device/common.sh"
bin=$build/test/emu
kfdtests=${*:2}
[ -n "$kfdtests" ] || kfdtests=${DMA_KFDTEST:-}

# count KIND: prints the number of packets of this kind in queues on links, of all processes; "doorbells": the number of
# doorbells
count() {
    cat "$work"/stats/* | awk -v kind="$1" '
        /^queue/ { ours = / type 5 / }
        ours && $8 == "packet" && $9 == kind { n += $10 }
        ours && $8 == "doorbells" && kind == "doorbells" { n += $9 }
        END { print n + 0 }'
}

# latte COLLECTIVE VARIANT BYTES SIGNAL TRIGGER [KIND=COUNT...]: two rounds on 8 MI300X, each with COUNT packets of a kind
latte() {
    local want found
    node 20 8 mi300x "$bin/latte" "$1" "$2" "$3" 2 "$4" "$5" || return 1
    for want in "${@:6}"; do
        found=$(count "${want%=*}")
        echo "${want%=*}: $found in two rounds, ${want#*=} in each wanted"
        [ "$found" = $((2 * ${want#*=})) ] || return 1
    done
    silent
}

# breaks RULE CMD...: the node ends the program because it breaks this rule
breaks() {
    ! "${@:2}" || return 1
    grep -h '^violation' "$work"/log/*
    grep -qh "^violation: $1: " "$work"/log/*
}

# kfdtest PROGRAM TEST: the test passes and is not skipped, on two MI250X, or on $persona
kfdtest() {
    node 60 2 "${persona:-mi250x}" "$1" --gtest_filter="$2" >"$work/out" 2>&1 || {
        tail -n 20 "$work/out"
        return 1
    }
    grep 'FAILED\|PASSED' "$work/out"
    grep -q 'PASSED  . 1 test' "$work/out" && ! grep -q 'Skipping' "$work/out" && silent
}

# To fill the buffers takes one more doorbell per GPU.
commands_of_latte() {
    ok "$EMU_DOOR: all-gather by copies" latte ag pcpy 4096 2 0 copy=56 atomic=56 poll=0 doorbells=64
    ok "$EMU_DOOR: all-gather by copies, one trigger" latte ag pcpy 4096 0 1 copy=56 fence=64 poll=56 doorbells=64
    ok "$EMU_DOOR: all-gather by broadcasts, a trigger each" latte ag bcst 8192 2 2 copy=8 broadcast=24 atomic=32 poll=32 doorbells=40
    ok "$EMU_DOOR: all-gather back to back" latte ag b2b 100000 1 1 copy=56 fence=24 poll=8 doorbells=16
    ok "$EMU_DOOR: all-to-all by copies" latte aa pcpy 128 2 2 copy=56 atomic=56 poll=56 doorbells=64
    ok "$EMU_DOOR: all-to-all by swaps" latte aa swap 4096 2 0 swap=28 atomic=28 poll=0 doorbells=36
    ok "$EMU_DOOR: all-to-all back to back" latte aa b2b 4096 2 0 copy=56 atomic=8 poll=0 doorbells=16
    ok "$EMU_DOOR: latency of a copy" latte p2p latency 65536 2 1 copy=1 timestamp=2 poll=1 atomic=2 fill=1
    ok "$EMU_DOOR: swaps of 16 bytes are refused" breaks align-swap latte aa swap 16 2 0
    EMU_LAX=align-swap ok "$EMU_DOOR: swaps of 16 bytes" latte aa swap 16 2 0 swap=28
    ok "$EMU_DOOR: fills of 5 MiB are refused" breaks fill-large latte p2p latency 5242880 2 0
    EMU_LAX=fill-large ok "$EMU_DOOR: fills of 5 MiB" latte p2p latency 5242880 2 0 copy=1 fill=1
}

# A program that contains the thunk uses the kernel's door only.
stands_below() {
    [ "$EMU_DOOR" = kernel ] || [[ $(ldd "$1") = *libhsakmt.so.1* ]]
}

# Three lists: tests that keep every rule, tests that rely on copies that end in order, and tests that break rules.
orderly='KFDOpenCloseKFDTest.OpenAlreadyOpenedKFD KFDOpenCloseKFDTest.OpenCloseKFD KFDTopologyTest.BasicTest KFDTopologyTest.GetNodeIoLinkProperties
    KFDEventTest.CreateDestroyEvent KFDEventTest.CreateMaxEvents KFDMemoryTest.MapMemoryToGPU
    KFDMemoryTest.MemoryAlloc KFDQMTest.CreateDestroySdmaQueue KFDQMTest.SubmitNopSdmaQueue KFDQMTest.SubmitPacketSdmaQueue
    KFDQMTest.AllXgmiSdmaQueues KFDQMTest.CreateAqlCpQueue'
in_order='KFDQMTest.AllSdmaQueues KFDQMTest.P2PTest'
careless='KFDQMTest.SdmaConcurrentCopies KFDQMTest.SdmaQueueWraparound KFDQMTest.DisableSdmaQueueByUpdateWithNullAddress
    KFDQMTest.SdmaEventInterrupt KFDMemoryTest.MMBench'

# tests_of_amd PROGRAM NUMBER
tests_of_amd() {
    local program=$1 name="$EMU_DOOR, kfdtest $2" test
    for test in $orderly; do
        ok "$name: $test" kfdtest "$program" "$test"
    done
    for test in $in_order; do
        EMU_IN_FLIGHT=1 ok "$name: $test" kfdtest "$program" "$test"
    done
    for test in $careless; do
        EMU_LAX=all EMU_IN_FLIGHT=1 ok "$name: $test" kfdtest "$program" "$test"
    done
    for test in $careless; do
        ok "$name: $test is refused" breaks race kfdtest "$program" "$test"
    done
    # Copies to peers on host-facing engines.
    persona=mi300x EMU_IN_FLIGHT=1 ok "$name: KFDQMTest.P2PTest on MI300X is refused" breaks peer kfdtest "$program" KFDQMTest.P2PTest
    persona=mi300x EMU_IN_FLIGHT=1 EMU_LAX=peer ok "$name: KFDQMTest.P2PTest on MI300X" kfdtest "$program" KFDQMTest.P2PTest
}

for door in $dma_emu_doors; do
    export EMU_DOOR=$door
    # At the kernel's door, latte is linked with the installed thunk.
    if [ -x "$bin/latte" ] && has_thunk; then
        commands_of_latte
    fi
    number=0
    for program in ${kfdtests//:/ }; do
        number=$((number + 1))
        if stands_below "$program"; then
            tests_of_amd "$program" $number
        fi
    done
done
[ $((passed + failed)) -gt 0 ] || skip 'there is no thunk here that others can use, and DMA_KFDTEST names no kfdtest'
[ -n "$kfdtests" ] || echo 'kfdtest did not run: DMA_KFDTEST does not say where it has been built'
finish
