#!/bin/bash
# fuzz.sh [-s SECONDS] [-S SEED] BUILD [NAME...]: readers of data from elsewhere get any bytes: each input of the corpus, and
# inputs made from it. BUILD should have sanitizers.
#
# With -s libFuzzer looks for inputs for this number of seconds for each reader, in a build with clang (build-fuzz). An input
# that ends a program is kept in build/log/fuzz-*. New inputs that reach new code are in build-fuzz/corpus. Those that have
# ever found a fault belong into test/fuzz/corpus.
set -uo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=test/lib.sh
. "$root/test/lib.sh"
seconds=0 seed=1
while getopts s:S: option; do
    case $option in
    s) seconds=$OPTARG ;;
    S) seed=$OPTARG ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
programs=$1/test/fuzz
shift
[ $# -gt 0 ] || set -- param profile record topology trace ucx
# Leaks of an input are errors. Allocations that are larger than any machine are refused, as malloc refuses them.
export ASAN_OPTIONS=allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1

# corpus NAME
corpus() {
    case $1 in
    profile) printf '%s\n' "$root"/profiles/*.txt ;;
    *) printf '%s\n' "$root/test/fuzz/corpus/$1"/* ;;
    esac
}

# The number of inputs that takes about two seconds with sanitizers.
count() {
    case $1 in
    param | record | ucx) echo 20000 ;;
    profile) echo 5000 ;;
    topology) echo 1000 ;;
    *) echo 100 ;;
    esac
}

# some NAME: the last line says that all were tried
some() {
    local files
    mapfile -t files < <(corpus "$1")
    says '^[0-9]+ inputs$' timeout 300 "$programs/fuzz_$1" "$seed" "$(count "$1")" "${files[@]}"
}

# Two builds of one tree: the core by make, and each program with libFuzzer's main instead of ours.
make_fuzzers() {
    # shellcheck source=tools/build.sh
    (cd "$root" && . tools/build.sh && configure_build build-fuzz --enable-sanitizers=address,undefined CC=clang \
        'CFLAGS=-g1 -O1 -fsanitize=fuzzer-no-link' && make_in build-fuzz fuzz) || return
    for name; do
        # shellcheck disable=SC2046
        (cd "$root/build-fuzz" && clang -fsanitize=fuzzer,address,undefined -o "fuzz_$name" \
            $(make -s --no-print-directory print-fuzz-objects | sed -n "s/^$name //p" | tr ' ' '\n' | grep -v driver.o) .libs/libdma_core.a -lm -ldl -lpthread) || return
    done
}

# long NAME
long() {
    local files new=$root/build-fuzz/corpus/$1
    mapfile -t files < <(corpus "$1")
    mkdir -p "$new"
    cp "${files[@]}" "$new/"
    "$root/build-fuzz/fuzz_$1" -seed="$seed" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=65536 \
        -artifact_prefix="$root/build/log/fuzz-$1-" "$new" 2>&1 | grep -v '^#' | tail -n 60
}

if [ "$seconds" = 0 ]; then
    for name; do
        # Without UCX there is no fuzz_ucx.
        if [ "$name" != ucx ] || [ -x "$programs/fuzz_ucx" ]; then
            ok "$name" some "$name"
        fi
    done
    finish
    exit
fi
mkdir -p "$root/build/log"
ok 'builds with libFuzzer' make_fuzzers "$@"
for name; do
    ok "$name, $seconds s" long "$name"
done
finish
