#!/bin/bash
# probes.sh BUILD: the static probes (include/dma/probe.h) are in the component as the notes that tools read, with as many
# arguments as docs/user/trace.md says. Without sys/sdt.h there are none.
set -uo pipefail
build=$(cd "${1:?}" && pwd)
root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=test/lib.sh
. "$root/test/lib.sh"
command -v readelf >/dev/null || skip 'readelf is not installed'
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# probes FILE: lines "NAME ARGUMENTS" of our provider, each once
probes() {
    LC_ALL=C readelf -n "$1" | awk '
        /^ *Provider: / { ours = $2 == "coll_dma" }
        ours && /^ *Name: / { name = $2 }
        ours && /^ *Arguments:/ { print name, NF - 1 }' | sort -u
}

# documented: the same, of the table in the document
# shellcheck disable=SC2016
documented() {
    sed -n 's/^| `\([a-z_]*\)(\(.*\))` |.*/\1 \2/p' "$root/docs/user/trace.md" | awk '{ print $1, NF - 1 }' | sort
}

# compile FLAGS...: the code that a call of a probe becomes
compile() {
    printf '#include "dma/probe.h"\nint f(int a);\nint f(int a) { DMA_PROBE2(name, a, 0); return a; }\n' |
        ${CC:-gcc} -O2 -I "$root/include" "$@" -x c -c - -o "$work/try.o"
}

in_component() {
    local file
    file=$(find "$build" -maxdepth 2 -name mca_coll_dma.so -print -quit)
    [ -n "$file" ] && diff <(documented) <(probes "$file") && [ "$(documented | wc -l)" = 5 ]
}

with_header() {
    compile -DDMA_HAVE_SDT=1 && [ "$(probes "$work/try.o")" = 'name 2' ]
}

without_header() {
    compile && [ -z "$(probes "$work/try.o")" ] && ! readelf -S "$work/try.o" | grep stapsdt
}

# A tool sees the calls of a program, as many ends as beginnings, and why they leave the fast path.
# shellcheck disable=SC2015,SC2016
seen() {
    local probe
    for probe in call_begin call_end setup_begin; do
        printf 'break -probe-stap coll_dma:%s\ncommands\nsilent\nprintf "%s %%d\\n", $_probe_arg1\ncontinue\nend\n' $probe $probe
    done >"$work/gdb"
    printf 'break -probe-stap coll_dma:way_out\ncommands\nsilent\nprintf "out %%s\\n", (char *)$_probe_arg1\ncontinue\nend\nrun\n' >>"$work/gdb"
    CK_FORK=no CK_RUN_CASE=not_served timeout 600 gdb -nx -batch -x "$work/gdb" "$build/test/unit/test_reasons" >"$work/log" 2>&1
    grep -q '^out arena_limit' "$work/log" && grep -q '^out staged_aside' "$work/log" && grep -q '^setup_begin [0-2]' "$work/log" &&
        [ "$(grep -c '^call_begin' "$work/log")" -ge 3 ] &&
        [ "$(grep -c '^call_begin' "$work/log")" = "$(grep -c '^call_end 1' "$work/log")" ] || { cat "$work/log"; return 1; }
}

if grep -q 'DMA_HAVE_SDT' "$build/Makefile"; then
    ok 'the component has the probes that are documented' in_component
    ok 'a probe is a note' with_header
    if gdb -nx -batch -ex run "$(command -v true)" 2>&1 | grep 'exited normally' >/dev/null && [ -x "$build/test/unit/test_reasons" ]; then
        ok 'a tool sees calls, set-ups and ways out' seen
    else
        echo 'not checked: what a tool sees, because there is no gdb that works, or no unit test'
    fi
else
    echo 'not checked: the probes themselves, because the build has no sys/sdt.h'
    ok 'the component has none' test -z "$(probes "$(find "$build" -maxdepth 2 -name mca_coll_dma.so -print -quit)")"
fi
ok 'without the header a probe is nothing' without_header
finish
