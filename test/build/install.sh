#!/bin/bash
# install.sh BUILD: what `make install` puts where, what it says, and that Open MPI finds the component there.
set -euo pipefail
build=$(cd "$1" && pwd)
root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=test/lib.sh
. "$root/test/lib.sh"
# shellcheck source=/dev/null
. "$build/config/build.env"
work=$build/install-test
rm -rf "$work"
mkdir "$work"

files_under() {
    (cd "$1" && find . -type f | sort | tr '\n' ' ')
}

# The build is configured for Open MPI's own folders; DESTDIR puts a copy of them elsewhere.
own_folders() {
    make -s -C "$build" install DESTDIR="$work/own" >"$work/own.log" 2>&1 || { cat "$work/own.log"; return 1; }
    [ -e "$work/own${dma_ompi_component_dir:?}/mca_coll_dma.so" ] &&
        grep -q 'mpirun --mca coll dma PROGRAM' "$work/own.log" && ! grep -q mca_base_component_path "$work/own.log"
}

uninstall() {
    make -s -C "$build" uninstall DESTDIR="$work/own" && [ -z "$(files_under "$work/own")" ]
}

# The same build, with another destination given to make.
elsewhere() {
    make -s -C "$build" install componentdir="$work/mca" helpdir="$work/mca" prefix="$work/prefix" >"$work/mca.log" 2>&1 ||
        { cat "$work/mca.log"; return 1; }
    files_under "$work/mca"
    [ "$(files_under "$work/mca")" = './help-coll-dma.txt ./mca_coll_dma.so ' ]
}

# The commands and what they start are below the prefix.
commands_work() {
    local name installed=''
    for name in accept bench state trace; do
        installed+="./bin/coll_dma_$name "
        says "^usage: (mpirun .*)?coll_dma_$name " "$work/prefix/bin/coll_dma_$name" --help || return 1
    done
    installed+='./libexec/coll-dma/coll_dma_accept_worker '
    for name in accept bench state trace; do
        installed+="./share/man/man1/coll_dma_$name.1 "
    done
    files_under "$work/prefix"
    [ "$(files_under "$work/prefix")" = "$installed" ]
}

# Manual pages without a fault, as far as a checker is here. It does not know the pages that ours refer to.
pages() {
    local faults
    command -v mandoc >/dev/null || { echo 'not checked: mandoc is not installed' && return 0; }
    faults=$(mandoc -T lint "$root"/tools/*/*.1 | grep -v 'referenced manual not found\|outdated mandoc.db')
    echo "$faults"
    [ -z "$faults" ]
}

# Exactly what the text says to do.
as_told() {
    local line
    line=$(sed -n 's/^ *export //p' "$work/mca.log")
    echo "$line"
    env "$line" ompi_info --parsable | grep '^mca:coll:dma:version:'
}

with_build() {
    "$root/with-build" --build "$build" ompi_info --parsable | grep '^mca:coll:dma:version:'
}

no_build() {
    refuses 'run ./check or ./demo first' "$root/with-build" --build "$work" true
}

exported() {
    local symbols
    symbols=$(nm -D --defined-only "$build/mca/mca_coll_dma.so" | awk '{ print $NF }')
    echo "$symbols"
    [ "$symbols" = mca_coll_dma_component ]
}

# The loader then refuses the component in another series, instead of letting it crash.
linked() {
    readelf -d "$build/mca/mca_coll_dma.so"
    readelf -d "$build/mca/mca_coll_dma.so" | grep 'NEEDED.*\[libmpi\.so' >/dev/null &&
        readelf -d "$build/mca/mca_coll_dma.so" | grep 'NEEDED.*\[libopen-pal\.so' >/dev/null
}

ok "the component goes into Open MPI's own directory" own_folders
ok 'make uninstall leaves nothing' uninstall
ok 'a directory of its own gets the component and its help, nothing else' elsewhere
ok 'the commands go below the prefix' commands_work
ok 'their manual pages are right' pages
ok 'Open MPI finds it there, set up as make install says' as_told
ok 'with-build shows Open MPI the component just built' with_build
ok 'with-build says what to do when there is no build' no_build
ok 'the component exports one symbol' exported
ok 'the component is tied to its series of Open MPI' linked
rm -rf "$work"
finish
