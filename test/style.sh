#!/bin/bash
# style.sh [BUILD]: the rules of the code that a program can check. The rules about symbols need a build.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
# shellcheck source=test/lib.sh
. test/lib.sh

build=${1:-build}

# The folders of our code.
transports=(*_tl)
folders=()
for folder in include ompi_coll_dma mpix "${transports[@]}" test tools examples; do
    [ ! -d "$folder" ] || folders+=("$folder")
done

sources() {
    find "${folders[@]}" config/compat -name '*.[ch]' | sort
}

scripts() {
    printf '%s\n' autogen.sh check demo with-build .ci/run examples/osu/build
    printf '%s\n' test/bed/bed test/bed/bed-ctl
    find tools test -name '*.sh' | sort
    find examples -name '*.sbatch' | sort
}

# Only the component includes headers of Open MPI. The public library is for programs of MPI, and uses nothing else of it.
layers() {
    ! grep -rnE '#include *[<"](mpi|ompi|opal|orte)[./_-]' include/dma "${transports[@]}" ompi_coll_dma/{core,device,cluster,plan,node,gpu,engine} &&
        ! grep -rnE '#include *[<"](ompi|opal|orte|hip|cuda|dma|component|core|gpu)[./_-]' mpix include/mpix_dma.h |
            grep -vE '#include "(dma/(in_stream|parts|thread)|gpu/base)\.h"' # what the library and the component say to each other, and share
}

# One header asks for the version of Open MPI, and one has what differs inside. Examples ask for features, and for the version of
# MPI.
series() {
    ! grep -rnE '^ *# *(el)?if.*OMPI_' --include='*.[ch]' "${folders[@]}" |
        grep -vE '^(include/mpi_names|ompi_coll_dma/component/series)\.h:|OMPI_HAVE_MPI_EXT_'
}

# Only ucx_tl includes headers of UCX, and its interface does not.
ucx() {
    ! grep -rnE '#include *[<"]uc[pst]/' include ompi_coll_dma mpix test examples tools ucx_tl/ucx_tl.h
}

# All threads get the signals that they cause themselves, and no other (dma/thread.h).
threads() {
    ! grep -rnE '\bpthread_create\(' include ompi_coll_dma mpix "${transports[@]}" | grep -v '^include/dma/thread\.h:'
}

# list_of FILE: the makefile whose lists have it: local.mk of its folder, or of the nearest folder above that has one
list_of() {
    local folder=$1
    while [[ $folder = */* ]]; do
        folder=${folder%/*}
        [ ! -e "$folder/local.mk" ] || { echo "$folder/local.mk" && return; }
    done
    echo Makefile.am
}

# The lists are complete, and the nearest list has the file. Programs are in it without their .c.
listed() {
    local missing=0 file list words
    for file in $(find "${folders[@]}" -name '*.[ch]') $(find test tools -name '*.sh'); do
        list=$(list_of "$file")
        words=" $(tr -s '[:space:]' ' ' <"$list") "
        [[ $words = *" $file "* || $words = *" ${file%.c} "* ]] || {
            echo "$file is not listed in $list"
            missing=1
        }
    done
    for list in $(find . -path ./build\* -prune -o -name local.mk -print | sed 's:^\./::'); do
        grep -qx "include $list" Makefile.am || {
            echo "$list is not included in Makefile.am"
            missing=1
        }
    done
    return $missing
}

# ./check runs every script under test/, except shared parts and those that say that they are not part of it.
checked() {
    local missing=0 script scripts
    mapfile -t scripts < <(grep -L 'sourced\|^# Read by\|Part of the suite\|Not part of ./check' test/*.sh test/*/*.sh)
    for script in "${scripts[@]}"; do
        grep -qE " $script( |\$)" check || {
            echo "$script is not in check's table"
            missing=1
        }
    done
    return $missing
}

documents() {
    find . \( -name 'build*' -o -name '.*' ! -name . \) -prune -o -name '*.md' -print | sort
}

# anchors FILE: of its headings, as GitHub makes them
anchors() {
    sed -n 's/^#\{1,6\} *//p' "$1" | tr '[:upper:]' '[:lower:]' | sed 's/[^a-z0-9 _-]//g; s/ /-/g'
}

# Every relative link in a document leads to a file, and to a heading if it names one.
linked() {
    local missing=0 file link path anchor
    while IFS=: read -r file link; do
        link=${link#\](} link=${link%)}
        [[ $link != *://* ]] || continue
        path=${link%%#*} anchor=
        [[ $link != *\#* ]] || anchor=${link#*\#}
        path=${path:+${file%/*}/$path}
        path=${path:-$file}
        if [ ! -e "$path" ]; then
            echo "$file: there is no $link"
            missing=1
        elif [ -n "$anchor" ] && ! grep -qxF -e "$anchor" < <(anchors "$path"); then
            echo "$file: no heading for $link"
            missing=1
        fi
    done < <(documents | xargs grep -oHE '\]\([^) ]+\)')
    return $missing
}

# Every document that code, scripts or documents mention by its path exists.
mentioned() {
    local missing=0 file path
    while IFS=: read -r file path; do
        [ -e "$path" ] || {
            echo "$file: there is no $path"
            missing=1
        }
    done < <(grep -rnoE 'docs/[A-Za-z0-9_/-]+\.md' "${folders[@]}" profiles config check demo with-build README.md CONTRIBUTING.md docs |
        sed 's/:[0-9]*:/:/' | sort -u)
    return $missing
}

formatted() {
    sources | xargs -P "$(nproc)" -n 25 clang-format --dry-run -Werror
}

# A grep that ends at its first match ends the writer of the pipe with SIGPIPE, which is a failure under pipefail.
no_early_grep() {
    ! scripts | xargs grep -nE '[^|]\|[[:space:]]+grep( -[A-Za-z]+)* -[A-Za-z]*q'
}

# stderr has no buffer. A line that several calls write mixes with those of other ranks, and a test does not find its text. In
# libthreads.c a lock keeps others out.
whole_lines() {
    ! grep -rnE 'vfprintf\(stderr|fputc\(.*, stderr\)' --include='*.[ch]' "${folders[@]}" | grep -v '^test/unit/libthreads\.c:'
}

shell_scripts() {
    scripts | xargs -P "$(nproc)" -n 8 shellcheck -x
}

# Distributions that build with clang turn its warnings on.
clang_quiet() {
    local flags
    read -ra flags <<<"$(mpicc.openmpi -showme:compile) $(pkg-config --cflags ucx check)"
    flags=(-fsyntax-only -std=gnu11 -Wall -Wextra -Werror -DNDEBUG -D_GNU_SOURCE -DDMA_HAVE_UCX=1 "-DDMA_SYSCONFDIR=\"/etc\""
        -Iinclude -Iompi_coll_dma -Iucx_tl "${flags[@]/#-I/-isystem}")
    find ompi_coll_dma/{core,device,cluster,plan,node,gpu,engine} "${transports[@]}" -name '*.c' -print0 |
        xargs -0 -P "$(nproc)" -n 8 clang "${flags[@]}"
}

ok 'threads of ours leave the application its signals' threads
ok 'only the component and the public library include Open MPI' layers
ok 'mpi_names.h and series.h depend on the version of Open MPI' series
ok 'only ucx_tl includes UCX' ucx
ok 'the local.mk of its folder lists every file' listed
ok 'folders call each other only as docs/dev/architecture.md says' test/symbols.sh folders "$build"
ok 'functions that are not static have a user in another source' test/symbols.sh callers "$build"
ok 'files of a folder use each other in no circle' test/symbols.sh circles "$build"
ok 'no two types or functions have one name' test/symbols.sh names "$build"
ok 'these checks notice what they should' test/symbols.sh selftest "$build"
test/symbols.sh static "$build"
ok 'every reason to leave the fast path has a test' test/reasons.sh
ok 'a model has every order of memory accesses in shared memory' test/model/model.sh covered
ok './check runs every test script' checked
ok 'the changes that test/gpu/h200.sh makes for components with faults apply' test/gpu/h200.sh -c
ok 'links in documents lead somewhere' linked
ok 'documents that are mentioned are there' mentioned
ok 'no pipe ends in a grep that does not read it all' no_early_grep
ok 'lines of stderr are written at once' whole_lines
if command -v shellcheck >/dev/null; then
    ok 'shellcheck has no complaint' shell_scripts
else
    echo 'not checked: the scripts, because shellcheck is not installed'
fi
if clang-format --version 2>/dev/null | grep 'version 14\.' >/dev/null; then
    ok 'the code is formatted as .clang-format says' formatted
else
    echo 'not checked: the format, because clang-format 14 is not installed'
fi
if command -v clang >/dev/null; then
    ok 'clang warns of nothing in the core' clang_quiet
else
    echo 'not checked: what clang warns of, because it is not installed'
fi
finish
