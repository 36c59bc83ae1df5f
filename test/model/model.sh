#!/bin/bash
# model.sh threads|proof|orders|covered [NAME...]: the harnesses of test/model, which include the product's sources; README.md.
#
#     threads    with threads, under ThreadSanitizer where the compiler has it
#     proof      GenMC goes through all executions of each configuration, under RC11 and IMM, and says how many there are;
#                then `orders`. Exits with 77 where there is no genmc (in PATH, or $GENMC)
#     orders     each order of orders.txt, weakened, is an error in the configurations that it names
#     covered    orders.txt has every order of node/ and engine/host/, and configurations that are there (no GenMC)
#
# NAME: only these configurations, or for `orders` these entries. $CC is the compiler of `threads`.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
# shellcheck source=test/lib.sh
. "$root/test/lib.sh"
cd "$root" || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
compiler=${CC:-gcc}

# name, harness, plan (VARIANT:OPERATION:RANKS) or -, macros. Small: GenMC follows every execution.
configurations='
ring-2          ring    -                 RANKS=2 CALLS=8 DEPTH=2 AHEAD=1
ring-full       ring    -                 RANKS=2 CALLS=3 DEPTH=1 AHEAD=1
ring-3          ring    -                 RANKS=3 CALLS=3 DEPTH=2 AHEAD=1
ring-ahead      ring    -                 RANKS=2 CALLS=3 DEPTH=2 AHEAD=2
line            plans   host_line:0:2     WORDS=1 CALLS=2
slot            plans   host_slot:2:2     WORDS=1 CALLS=2
second          plans   host_slot:0:2     WORDS=1 CALLS=1 SECOND=1
pipe            plans   host_pipe:1:2     WORDS=2 CALLS=1 ONE_WAY=1
pipe-calls      plans   host_pipe:1:2     WORDS=1 CALLS=2 ONE_WAY=1
pair            plans   host_pair:2:2     WORDS=2 CALLS=1 ONE_WAY=1
reach           plans   host_reach:0:2    WORDS=2 CALLS=1
refused         plans   host_reach:1:2    WORDS=2 CALLS=1 ONE_WAY=1 REFUSED=1
poison          poison  host_reach:0:2
lines           lines   -                 EPOCHS=17
lines-twice     lines   -                 EPOCHS=3 TWICE=1
lines-one-word  lines   -                 EPOCHS=3 ONE_WORD=1
bell            bell    -
bell-exchanges  bell    -                 __SANITIZE_THREAD__=1
leave           leave   -
report          report  -
'
# The same, for threads of the machine: what the harness takes by itself, or more.
threaded='
ring            ring    -
line            plans   host_line:0:2     WORDS=1
second          plans   host_slot:0:2     WORDS=1 SECOND=1
pipe            plans   host_pipe:0:3     RANKS=3
pair            plans   host_pair:2:3     RANKS=3
reach           plans   host_reach:2:2
refused         plans   host_reach:0:2    REFUSED=1
poison          poison  host_reach:0:2
lines           lines   -
bell            bell    -
leave           leave   -
report          report  -
'
includes=(-Iinclude -Iompi_coll_dma -I"$here")

rows() { # TABLE [NAME...]
    local name rest
    while read -r name rest; do
        [ -z "$name" ] || [ $# = 1 ] || [[ " ${*:2} " = *" $name "* ]] || continue
        [ -z "$name" ] || echo "$name $rest"
    done <<<"$1"
}

# How many buffers a stream has. One is enough to be used again, and leaves fewer executions.
buffers() {
    case $verb in
    threads) echo -DBUFFERS=2 ;;
    *) echo -DBUFFERS=1 ;;
    esac
}

# Prints plans of the host variants; the sources of plans need nothing else.
make_printer() {
    local sources
    mapfile -t sources < <(find ompi_coll_dma/plan -name '*.c')
    "$compiler" -std=gnu11 -D_GNU_SOURCE -w -O0 "$(buffers)" "${includes[@]}" -o "$work/print_plans" "$here/print_plans.c" "${sources[@]}" \
        ompi_coll_dma/reasons.c -lm
}

# plan_of DIR PLAN
plan_of() {
    mkdir -p "$1"
    [ "$2" = - ] || "$work/print_plans" "${2%%:*}" "$(cut -d: -f2 <<<"$2")" "${2##*:}" >"$1/plan.h"
}

# threads NAME HARNESS PLAN MACROS...
run_threads() {
    local dir=$work/$1 macros=("${@:4}")
    plan_of "$dir" "$3" &&
        "$compiler" -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Wno-unused-function -Werror -O1 -g "${sanitize[@]}" "${includes[@]}" -I"$dir" \
            "${macros[@]/#/-D}" -o "$dir/model" "$here/$2.c" -lpthread &&
        TSAN_OPTIONS=halt_on_error=1 timeout -k 5 300 "$dir/model"
}

# check_all MODEL TREE NAME HARNESS PLAN MACROS...: 0 if GenMC finds no error. The product's files are those of TREE.
check_all() {
    local model=$1 tree=$2 dir=$work/$3 macros=("${@:6}")
    plan_of "$dir" "$5" || return 2
    timeout -k 5 "$limit" "$genmc" "--$model" "${options[@]}" -- -std=gnu11 -D_GNU_SOURCE \
        -DMODEL_GENMC "$(buffers)" -w -include "$here/words.h" -I"$tree/include" -I"$tree/ompi_coll_dma" -I"$here" -I"$dir" "${macros[@]/#/-D}" "$here/$4.c" 2>&1
}

# proves MODEL NAME...: no error, and some executions that come to their end; says how many
proves() {
    local output begin=${EPOCHREALTIME/[.,]/} complete blocked
    output=$(check_all "$1" "$root" "${@:2}") || {
        tail -n 30 <<<"$output"
        return 1
    }
    complete=$(sed -n 's/^Number of complete executions explored: //p' <<<"$output")
    blocked=$(sed -n 's/^Number of blocked executions seen: //p' <<<"$output")
    printf '%-15s %-5s %9s executions, %9s waits that do not end, %6.1f s\n' "$2" "$1" "${complete:-none}" "${blocked:-0}" \
        "$(awk "BEGIN { print (${EPOCHREALTIME/[.,]/} - $begin) / 1e6 }")" | tee -a "$work/table"
    [ "${complete:-0}" -gt 0 ]
}

prove() {
    local row model
    ok 'plans' make_printer
    : >"$work/table"
    while read -ra row; do
        for model in rc11 imm; do
            ok "${row[0]}, $model: no execution is wrong" proves $model "${row[@]:0:3}" "${row[@]:3}"
        done
    done < <(rows "$configurations" "$@")
    cat "$work/table"
}

# ---- orders ----

make_mutate() {
    gcc -std=gnu11 -D_GNU_SOURCE -O1 -w -o "$work/mutate" test/mutants/*.c
}

# weakened ENTRY CONFIGURATION...: GenMC finds an error in each; with `nothing` first, in none
weakened() {
    local tree=$work/tree name=$1 wanted=$error row output test status begin wrong=0
    rm -rf "$tree"
    mkdir "$tree"
    cp -rs "$root/include" "$root/ompi_coll_dma" "$tree"
    "$work/mutate" apply "$root" "$tree" "$name" "$here/orders.txt" >/dev/null || return
    shift
    if [ "$1" = nothing ]; then
        wanted=0
        shift
    fi
    for test; do
        read -ra row < <(rows "$configurations" "$test")
        begin=${EPOCHREALTIME/[.,]/}
        status=0
        output=$(check_all rc11 "$tree" "${row[@]:0:3}" "${row[@]:3}") || status=$?
        printf '%-26s %-15s %s, %.1f s\n' "$name" "$test" "$(sed -n 's/^Error: //p; s/^No errors.*/no error/p' <<<"$output")" \
            "$(awk "BEGIN { print (${EPOCHREALTIME/[.,]/} - $begin) / 1e6 }")" | tee -a "$work/table"
        [ $status = $wanted ] || {
            tail -n 5 <<<"$output"
            wrong=1
        }
    done
    return $wrong
}

weaken() {
    local name tests
    ok 'plans' make_printer
    ok 'what weakens orders' make_mutate
    : >"$work/table"
    while read -r name _ _ tests; do
        [ $# = 0 ] || [[ " $* " = *" $name "* ]] || continue
        # shellcheck disable=SC2086
        ok "$name: $tests" weakened "$name" $tests
    done < <("$work/mutate" list "$here/orders.txt")
    cat "$work/table"
}

# ---- what is covered ----

in_scope() {
    find ompi_coll_dma/node ompi_coll_dma/engine/host -name '*.[ch]' | sort
}

# FILE:LINE of every order that is not relaxed
orders() {
    in_scope | xargs grep -nE 'memory_order_(acquire|release|acq_rel|seq_cst|consume)' | cut -d: -f1,2
}

# FILE:LINE of what the entries of orders.txt change
changed() {
    local tree=$work/changed name file
    while read -r name _; do
        rm -rf "$tree"
        mkdir "$tree"
        "$work/mutate" apply "$root" "$tree" "$name" "$here/orders.txt" >"$work/files" || return
        while read -r file; do
            diff --unchanged-line-format= --new-line-format= --old-line-format="$file:%dn"$'\n' "$file" "$tree/$file"
        done <"$work/files"
    done < <("$work/mutate" list "$here/orders.txt")
    return 0
}

has_all() {
    local missing
    changed >"$work/changes" || return
    missing=$(orders | grep -vxFf "$work/changes")
    [ -z "$missing" ] || {
        echo 'no entry of test/model/orders.txt weakens the order here:'
        echo "$missing"
        return 1
    }
}

# An access without a word about its order has the strongest one, and nobody has thought about it.
says_order() {
    ! in_scope | xargs grep -nE 'atomic_(load|store|exchange|fetch_[a-z]+|compare_exchange_[a-z]+) *\(|__atomic_|__sync_|\+\+->|volatile'
}

has_configurations() {
    local name known wrong=0
    known=" nothing $(rows "$configurations" | cut -d' ' -f1 | tr '\n' ' ')"
    # shellcheck disable=SC2013
    for name in $(sed -n 's/^tests *//p' "$here/orders.txt"); do
        [[ $known = *" $name "* ]] || {
            echo "orders.txt names $name, which model.sh does not have"
            wrong=1
        }
    done
    return $wrong
}

needs_genmc() {
    genmc=${GENMC:-$(command -v genmc)} || skip 'there is no genmc in PATH (the environment may say GENMC=/path/to/genmc)'
    [ -x "$genmc" ] || skip "$genmc is no program"
}

# GenMC's exit status for a program with an error. Waits are marked (model.h), so it need not find loops that wait: in code of this
# size it would not come to an end with that.
error=42
options=(-disable-estimation -disable-warn-on-unfreed-memory -disable-spin-assume)
limit=${DMA_MODEL_SECONDS:-600}
verb=${1:-}
shift
case $verb in
threads)
    sanitize=(-fsanitize=thread)
    if ! echo 'int main(void) { return 0; }' | "$compiler" "${sanitize[@]}" -x c -o "$work/none" - 2>/dev/null || ! "$work/none"; then
        echo 'without ThreadSanitizer, which this compiler does not have'
        sanitize=()
    fi
    ok 'plans' make_printer
    while read -ra row; do
        ok "${row[0]}" run_threads "${row[@]:0:3}" "${row[@]:3}"
    done < <(rows "$threaded" "$@")
    ;;
proof)
    needs_genmc
    prove "$@"
    [ $# -gt 0 ] || weaken
    ;;
orders)
    needs_genmc
    weaken "$@"
    ;;
covered)
    ok 'what weakens orders' make_mutate
    ok 'every order of node/ and engine/host/ has an entry in test/model/orders.txt' has_all
    ok 'every atomic access there says its order' says_order
    ok 'configurations that orders.txt names are there' has_configurations
    ;;
*)
    sed -n '2s/^# /usage: /p' "$0" >&2
    exit 2
    ;;
esac
finish
