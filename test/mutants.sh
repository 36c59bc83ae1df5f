#!/bin/bash
# mutants.sh [NAME...]: are the unit tests awake? Changes the core in ways that must not go unnoticed, one at a time in a
# scratch copy, and runs the tests that should notice. A hang counts as noticed. Not part of ./check: it takes minutes.
#
# A mutant is test/mutants/NAME.sed: sed commands, and in comments
#     # file: what is changed          # tests: PROGRAM[:TEST]...
#     # build: plain | thread          (thread: with ThreadSanitizer)
# A mutant whose commands change nothing is stale: the code has moved on, and so must it.
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cc=${CC:-gcc}
limit=${DMA_MUTANT_SECONDS:-30}
ucx=
ucx_flags=$(pkg-config --cflags ucx 2>/dev/null) && ucx=1
export CK_FORK=no DMA_SEED=${DMA_SEED:-1}
killed=0 survived=() stale=()

flags() { # of a build
    local f="-std=gnu11 -O1 -g -D_GNU_SOURCE -w -DDMA_TEST_TOPOLOGIES=\"$root/test/topologies\""
    f+=" -idirafter $root/test/unit/kernel $ucx_flags"
    [ "$1" = thread ] && f+=" -fsanitize=thread"
    echo "$f"
}

compile() { # BUILD TREE SOURCE OBJECT
    # shellcheck disable=SC2046
    $cc $(flags "$1") -I"$2/include" -I"$2/ompi_coll_dma" -I"$2/ucx_tl" -I"$2/test/unit" -c "$3" -o "$4"
}

core() { (cd "$1" && ls ompi_coll_dma/{plan,plan/*,node,engine,engine/*,core,core/setup,device,cluster,gpu,gpu/*}/*.c && if [ "$ucx" ]; then ls ucx_tl/*.c; fi); }
helpers() { (cd "$1" && ls test/unit/lib*.c test/emu/sdma_*.c && if [ "$ucx" ]; then ls test/ucx/procs.c; fi); }

object() { echo "${1//\//_}.o"; }

# compile_all BUILD TREE INTO SOURCE...
compile_all() {
    local build=$1 tree=$2 into=$3 source
    shift 3
    mkdir -p "$into"
    for source; do
        compile "$build" "$tree" "$tree/$source" "$into/$(object "$source")" || return 1
    done
}

base() { # the unchanged objects of a build, once
    [ -d "$work/$1" ] && return
    # shellcheck disable=SC2046
    compile_all "$1" "$work/tree" "$work/$1" $(core "$work/tree") $(helpers "$work/tree")
}

# The tests of a mutant pass without it? Asked once per test.
declare -A passes
sound() { # BUILD TESTS...
    local build=$1 test
    shift
    for test; do
        if [ -z "${passes[$build $test]:-}" ]; then
            run "$build" "$work/$build" "$test"
            passes[$build $test]=$?
        fi
        [ "${passes[$build $test]}" = 0 ] || return 1
    done
}

# run BUILD OBJECTS TESTS...: 0 when all of them pass
run() {
    local build=$1 objects=$2 test program case wrap
    shift 2
    for test; do
        program=${test%%:*} case='' wrap=()
        case $program in
        # as in test/unit/local.mk
        test_relay) wrap=('-Wl,--wrap=malloc' '-Wl,--wrap=calloc' '-Wl,--wrap=free') ;;
        test_node) wrap=('-Wl,--wrap=posix_fallocate') ;;
        test_device_ipc) wrap=('-Wl,--wrap=malloc') ;;
        test_path | test_device_cost | test_cluster_told) wrap=('-Wl,--wrap=malloc' '-Wl,--wrap=calloc') ;;
        test_sdma_arm | test_sdma_bound | test_sdma_engine | test_sdma_lower | test_sdma_queue) wrap=('-Wl,--wrap=dma_thunk_find') ;;
        test_cluster_kept) wrap=('-Wl,--wrap=dma_cluster_build' '-Wl,--wrap=dma_cluster_bytes') ;;
        esac
        [ "$program" = "$test" ] || case=${test#*:}
        if ! [ -f "$objects/$program.o" ]; then
            compile "$build" "$work/tree" "$work/tree/test/unit/$program.c" "$objects/$program.o" || return 2
        fi
        # shellcheck disable=SC2046
        $cc $(flags "$build") -o "$work/$program" "$objects/$program.o" \
            $(for s in $(core "$work/tree") $(helpers "$work/tree"); do echo "$objects/$(object "$s")"; done) \
            "${wrap[@]}" -lcheck -lsubunit -lm -lpthread -lrt || return 2
        unset CK_RUN_CASE
        [ -z "$case" ] || export CK_RUN_CASE="$case"
        { TSAN_OPTIONS=halt_on_error=1 timeout -s KILL "$limit" setarch -R "$work/$program" >"$work/log" 2>&1 </dev/null; } \
            2>/dev/null || return 1
    done
}

field() { sed -n "s/^# $1: *//p" "$root/test/mutants/$2.sed"; }

mutate() { # NAME
    local name=$1 file build tests objects
    file=$(field file "$name") build=$(field build "$name") tests=$(field tests "$name")
    if [ "${file%%/*}" = ucx_tl ] && [ -z "$ucx" ]; then
        printf '%-28s left out: there is no UCX\n' "$name"
        return
    fi
    rm -rf "$work/mutant"
    cp -r "$work/tree" "$work/mutant"
    sed -i -E -f "$root/test/mutants/$name.sed" "$work/mutant/$file"
    if cmp -s "$work/tree/$file" "$work/mutant/$file"; then
        stale+=("$name")
        printf '%-28s STALE\n' "$name"
        return
    fi
    base "$build" || exit 2
    # shellcheck disable=SC2086
    if ! sound "$build" $tests; then
        stale+=("$name")
        printf '%-28s CANNOT TELL: fails unchanged: %s\n' "$name" "$tests"
        return
    fi
    objects=$work/objects
    rm -rf "$objects"
    cp -r "$work/$build" "$objects"
    if [ "${file##*.}" = h ]; then
        # shellcheck disable=SC2046
        compile_all "$build" "$work/mutant" "$objects" $(core "$work/mutant") $(helpers "$work/mutant")
    else
        compile "$build" "$work/mutant" "$work/mutant/$file" "$objects/$(object "$file")"
    fi || {
        stale+=("$name")
        printf '%-28s DOES NOT COMPILE\n' "$name"
        return
    }
    # shellcheck disable=SC2086
    run "$build" "$objects" $tests
    case $? in
    0)
        survived+=("$name")
        printf '%-28s SURVIVED %s\n' "$name" "$tests"
        ;;
    1)
        killed=$((killed + 1))
        printf '%-28s killed   %s\n' "$name" "$tests"
        ;;
    *) exit 2 ;;
    esac
}

mkdir "$work/tree"
cp -r "$root/include" "$root/ompi_coll_dma" "$root/ucx_tl" "$work/tree"
mkdir "$work/tree/test"
cp -r "$root/test/unit" "$root/test/emu" "$root/test/ucx" "$work/tree/test"
[ $# -gt 0 ] || set -- "$root"/test/mutants/*.sed
for name; do
    mutate "$(basename "$name" .sed)"
done
echo "killed $killed, survived ${#survived[@]}${survived:+ (${survived[*]})}, stale ${#stale[@]}${stale:+ (${stale[*]})}"
[ ${#survived[@]} = 0 ] && [ ${#stale[@]} = 0 ]
