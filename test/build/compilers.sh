#!/bin/bash
# compilers.sh: the tree builds without a warning with GCC and clang of this machine and of a newer Debian (the root of
# series 5.0). All of it is built without optimization and at the highest level; the product is also built at the levels
# between, and across files (LTO). Unit tests pass in the builds that optimize most. Compilers print different warnings at
# each level.
set -uo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=test/lib.sh
. "$root/test/lib.sh"
cd "$root" || exit 1
# What optimizers get wrong first: threads, orders of memory accesses, layouts. Programs whose linker replaces a function
# (--wrap) are left out: GCC's LTO has inlined the original by then.
programs=(test/unit/test_threads test/unit/test_node test/unit/test_copy test/unit/test_failures test/unit/test_forms test/unit/test_relay
    test/unit/test_device_sync test/unit/test_sdma_ring test/unit/test_cluster_exchange test/unit/test_shape)

# options COMPILER LEVEL: of configure
options() {
    local flags="-g1 $2"
    case $1,$2 in
    # Without fat objects, and with those tools for libtool that can read them.
    gcc,*lto*) printf '%s\n' CC=gcc "CFLAGS=$flags=auto" AR=gcc-ar NM=gcc-nm RANLIB=gcc-ranlib ;;
    clang,*lto*) printf '%s\n' CC=clang "CFLAGS=$flags" 'LDFLAGS=-fuse-ld=lld' AR=llvm-ar NM=llvm-nm RANLIB=llvm-ranlib ;;
    *) printf '%s\n' "CC=$1" "CFLAGS=$flags" ;;
    esac
}

# compile DIR COMPILER LEVEL TARGET...: of this tree
compile() {
    local all
    mapfile -t all < <(options "$2" "$3")
    rm -rf "$1"
    mkdir -p "$1"
    (cd "$1" && ../configure --enable-werror "${all[@]}") >"$1.log" 2>&1 || {
        tail -n 5 "$1.log"
        return 1
    }
    make -C "$1" -k -j"$(nproc)" "${@:4}" >"$1.log" 2>&1 || {
        grep -E -A3 '(error|warning|undefined)[: ]' "$1.log" | head -n 40
        return 1
    }
}

# tests DIR: the unit tests named above
tests() {
    test/unit/run.sh "$1" "${programs[@]}"
}

# one COMPILER LEVEL: built and tested
one() {
    local dir=build-compilers
    case $2 in
    -O[12]) compile $dir "$1" "$2" all ;;
    -O3) compile $dir "$1" "$2" all programs unit && tests $dir ;;
    *-flto) compile $dir "$1" "$2" all "${programs[@]}" && tests $dir ;; # each program is compiled again as a whole
    *) compile $dir "$1" "$2" all programs unit ;;
    esac
}

if [ "${1:-}" = one ]; then
    one "$2" "$3"
    exit
fi

newer() {
    tools/series.sh enter 5.0 "$@"
}

missing=$(for tool in gcc clang ld.lld llvm-ar; do command -v $tool >/dev/null || echo $tool; done)
[ -z "$missing" ] || skip "missing: $missing"
why=$(tools/series.sh root 5.0 compilers) || skip "$(tail -n 1 <<<"$why")"
ok 'the tarball' make -C build --no-print-directory dist
ok 'is unpacked' tools/series.sh tree 5.0 build/coll-dma-*.tar.gz
for compiler in gcc clang; do
    for level in -O0 -O1 -O2 -O3 '-O3 -flto'; do
        ok "$($compiler --version | head -n 1), $level" test/build/compilers.sh one $compiler "$level"
        ok "$(newer $compiler --version | head -n 1), $level" newer test/build/compilers.sh one $compiler "$level"
    done
done
rm -rf build-compilers
finish
