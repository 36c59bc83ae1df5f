#!/bin/bash
# run.sh BUILD [OPTION...] [NAME...]: breaks the product on purpose, one mutant at a time, and runs the unit tests that must
# notice. Without a name or an option that chooses mutants, only checks that every mutant still applies (seconds).
#
#     --stale            check only that every mutant still applies
#     --all              all mutants
#     --module MODULE    all mutants of test/mutants/MODULE.txt
#     --random N         N mutants of the plain build, chosen by the seed
#     --seed S           default: 1; another seed chooses others
#     --seconds S        begin no mutant after S seconds
#     --jobs N           N mutants at a time (default: as many as processors)
#     --generate FILE    mutants that operators make of a product file; with --random N, some of them
#     --operator LIST    for generated ones: of these operators only, with blanks between them (store call negate bound logic order)
#     --tests LIST       for generated ones: the programs to run, in this order (default: all that link the file)
#
# BUILD is a build with its unit tests. Mutants of the build `thread` use ./build-tsan beside it, as `./check tsan` makes it;
# it is made if it is not there. A hang counts as noticed. Exit status: 1 if a mutant of the tables survived or does not apply.
# A test that fails without the mutant tells nothing: that is for `./check unit`.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
# shellcheck source=tools/build.sh
. "$root/tools/build.sh"

limit=${DMA_MUTANT_SECONDS:-30}
build='' seed='' seconds='' jobs=$(nproc) random='' module='' generate='' operators='store call negate bound logic order' programs='' rounds=3 all=0 names=()
while [ $# -gt 0 ]; do
    case $1 in
    --stale) ;;
    --all) all=1 ;;
    --module | --random | --seed | --seconds | --jobs | --generate | --operator | --tests)
        [ $# -gt 1 ] || die "$1 needs a value"
        case $1 in
        --module) module=$2 ;;
        --random) random=$2 ;;
        --seed) seed=$2 ;;
        --seconds) seconds=$2 ;;
        --jobs) jobs=$2 ;;
        --generate) generate=$2 ;;
        --operator) operators=$2 ;;
        --tests) programs=$2 ;;
        esac
        shift
        ;;
    -*) die "no option $1; the head of ${BASH_SOURCE[0]} lists them" ;;
    *) if [ -z "$build" ]; then build=$1; else names+=("$1"); fi ;;
    esac
    shift
done
[ -n "$build" ] || die 'usage: run.sh BUILD [OPTION...] [NAME...]'
build=$(cd "$build" && pwd) || exit 2
[ -z "$module" ] || [ -f "$here/$module.txt" ] || die "there is no module $module"

work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; wait; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
mutate=$work/mutate
gcc -std=gnu11 -D_GNU_SOURCE -O1 -w -o "$mutate" "$here"/*.c || die 'mutate does not compile'
tables=("$here"/*.txt)
export CK_FORK=no DMA_SEED=${DMA_SEED:-1} TSAN_OPTIONS=halt_on_error=1 UCX_MEM_EVENTS=${UCX_MEM_EVENTS:-no}

# The build folder of a kind of build.
folder() {
    case $1 in
    plain) echo "$build" ;;
    thread) echo "$root/build-tsan" ;;
    esac
}

# prepare KIND PROGRAM...: the unmodified programs
prepare() {
    local kind=$1 into
    shift
    into=$(folder "$kind")
    (
        cd "$root" && mkdir -p build && flock 9
        [ "$kind" = plain ] || configure_build build-tsan --enable-werror --enable-sanitizers=thread 'CFLAGS=-g1 -O1' || exit
        nice make -C "$into" --no-print-directory -j"$jobs" "$@"
    ) 9>"$root/build/.build-tsan" >"$work/prepare.log" 2>&1 || {
        tail -n 20 "$work/prepare.log"
        die "the $kind build does not build"
    }
}

# rules KIND TARGET FILE...: the commands that make would run for a target after a change of the files
rules() {
    local kind=$1 target=$2 file changed=()
    shift 2
    for file; do
        changed+=(-W "../$file")
    done
    # shellcheck disable=SC2086
    make -C "$(folder "$kind")" -n --no-print-directory V=1 "${changed[@]}" $target | grep -E 'gcc|cc '
}

# compile KIND DIR FILE...: what depends on the changed files, from the tree in DIR, to objects in DIR/objects
compile() {
    local kind=$1 dir=$2 line args words source from
    shift 2
    while IFS= read -r line; do
        # The last word of the command. make writes some of them as `test -f 'FILE' || echo '../'`FILE.
        read -ra words <<<"${line%%&&*}"
        source=${words[-1]##*\`}
        source=${source#../}
        # Only the options of the compiler, with the headers of the changed tree first.
        args=$(sed -E "s/^.*--mode=compile //; s/^gcc //; s/-M[TF] [^ ]*|-MD|-MP|-Werror//g; s/ -c .*//; s@-I\.\./([^ ]*)@-I$dir/\1 -I../\1@g" <<<"$line")
        from=$dir/$source
        # Tests may depend on a changed header; they are not in that tree.
        [ -f "$from" ] || from=../$source
        (cd "$(folder "$kind")" && eval "gcc $args -O1 -g0 -w -iquote '../${source%/*}' -c '$from' -o '$dir/objects/${source//\//_}.o'") ||
            return 1
    done < <(rules "$kind" "$tests_of_rules" "$@" | grep -E -- ' -c .*\.\./' | grep -v mca_coll_dma_la-)
}

# link KIND DIR PROGRAM: as make would, with the changed objects before the libraries
link() {
    local kind=$1 dir=$2 program=$3 line own=$2/objects/test_unit_$3.c.o
    # Asked once per program.
    [ -s "$work/asked/$kind-$program" ] ||
        rules "$kind" "test/unit/$program" "test/unit/$program.c" | grep -- '--mode=link' | tail -n 1 >"$dir/rule"
    [ -s "$work/asked/$kind-$program" ] || mv "$dir/rule" "$work/asked/$kind-$program"
    line=$(cat "$work/asked/$kind-$program")
    line=${line#*--mode=link }
    line=${line/-o test\/unit\/$program /-o "$dir/$program" }
    [ ! -f "$own" ] || line=${line/test\/unit\/$program.o/}
    line=${line/ libdma_unit.la/ $(echo "$dir"/objects/*.o) .libs\/libdma_unit.a}
    line=${line/ libdma_core.la/ .libs\/libdma_core.a}
    (cd "$(folder "$kind")" && eval "$line -ldl") 2>"$dir/link.log"
}

# passes SECONDS DIR PROGRAM[:CASE]: 0 if the program in DIR passes, 137 if it takes longer
passes() {
    local program=${3%%:*}
    unset CK_RUN_CASE
    [ "$program" = "$3" ] || export CK_RUN_CASE=${3#*:}
    { timeout -s KILL "$1" setarch -R "$2/$program" >"$work/log.$BASHPID" 2>&1 </dev/null; } 2>/dev/null
}

# time_of KIND TEST: how many seconds it takes without a mutant, or `fails`. Asked once per test.
time_of() {
    local answer=$work/asked/$1.${2//\//_} began
    (
        flock 8
        if [ ! -s "$answer" ]; then
            began=$EPOCHSECONDS
            if passes $((8 * limit)) "$(folder "$1")/test/unit" "$2"; then
                echo $((EPOCHSECONDS - began))
            else
                echo fails
            fi >"$answer"
        fi
    ) 8>"$answer.lock"
    cat "$answer"
}

# verdict KIND DIR TEST: passed, killed or UNSOUND
verdict() {
    local status=0 usual
    passes "$limit" "$2" "$3" || status=$?
    if [ $status = 0 ]; then
        echo passed
        return
    fi
    usual=$(time_of "$1" "$3")
    if [ "$usual" = fails ]; then
        echo UNSOUND
        return
    fi
    # A test that is slow without the mutant gets more time.
    if [ $status = 137 ] && [ "$usual" -ge $((limit / 3)) ] && passes $((limit + 4 * usual)) "$2" "$3"; then
        echo passed
    else
        echo killed
    fi
}

say_result() { # WORD NAME REST
    printf '%s\n' "$1" >>"$work/results"
    printf '%-32s %-9s %s\n' "$2" "$1" "$3"
}

# attempt NAME KIND DIR TESTS...: DIR contains the changed files, whose names are in DIR/files
attempt() {
    local name=$1 kind=$2 dir=$3 test round files tests_of_rules
    shift 3
    mapfile -t files <"$dir/files"
    mkdir -p "$dir/objects"
    tests_of_rules="libdma_core.la libdma_unit.la $(printf 'test/unit/%s\n' "${@%%:*}" | sort -u | tr '\n' ' ')"
    if ! compile "$kind" "$dir" "${files[@]}" >"$dir/compile.log" 2>&1; then
        say_result INVALID "$name" "does not compile: $(grep -m 1 error "$dir/compile.log")"
        return
    fi
    # Some faults show only sometimes.
    for ((round = 0; round < rounds; round++)); do
        for test; do
            if [ ! -f "$dir/${test%%:*}" ] && ! link "$kind" "$dir" "${test%%:*}"; then
                say_result INVALID "$name" "does not link: $(tail -n 1 "$dir/link.log")"
                return
            fi
            case $(verdict "$kind" "$dir" "$test") in
            killed)
                say_result killed "$name" "$test"
                return
                ;;
            UNSOUND)
                say_result UNSOUND "$name" "$test fails without the mutant"
                return
                ;;
            esac
        done
    done
    say_result SURVIVED "$name" "$*"
}

# The tree in which a mutant's changed files replace links.
tree() { # DIR
    mkdir -p "$1/test"
    cp -rs "$root/include" "$root/ompi_coll_dma" "$root/mpix" "$root"/*_tl "$1"
    cp -rs "$root/test/emu" "$1/test"
}

mutant() { # NAME MODULE KIND TESTS...
    local dir=$work/m-$1
    tree "$dir"
    if "$mutate" apply "$root" "$dir" "$1" "${tables[@]}" >"$dir/files" 2>"$dir/apply.log"; then
        attempt "$1" "$3" "$dir" "${@:4}"
    else
        say_result STALE "$1" "$(head -n 1 "$dir/apply.log")"
    fi
    rm -rf "$dir"
}

generated() { # ID WHERE CODE...
    local dir=$work/g-$1 kind=plain programs=$programs code="${*:3}"
    tree "$dir"
    "$mutate" generate "$root" "$generate" "$dir" "$1" >"$dir/files" || return
    # Only ThreadSanitizer notices orders, because processors of one kind keep most of them.
    if [ "${1%-*}" = order ]; then
        kind=thread
        programs=$ordered
    fi
    # shellcheck disable=SC2086
    attempt "$1" "$kind" "$dir" $programs | sed "s/\$/ # $2/" | paste -d ' ' - <(echo "$code")
    rm -rf "$dir"
}

# N of the lines of stdin, chosen by the seed, in an order of its own.
choose() {
    if [ -z "$random" ]; then
        cat
    else
        awk -v seed="$seed" 'BEGIN { srand(seed); for (i = 0; i < 9; i++) rand() } { print rand() "\t" $0 }' | sort -g |
            cut -f 2- | head -n "$random"
    fi
}

# pool COMMAND: for each line of stdin, several at a time
pool() {
    local words running=0
    while IFS= read -r line; do
        [ -z "$seconds" ] || [ $SECONDS -lt "$seconds" ] || {
            echo "not begun, as $seconds s are over: ${line%% *} and what follows it"
            break
        }
        if [ $running -ge "$jobs" ]; then
            wait -n
            running=$((running - 1))
        fi
        read -ra words <<<"$line"
        "$1" "${words[@]}" &
        running=$((running + 1))
    done
    wait
}

# The programs of the build whose code has a function of the file. The object of the file is where libtool puts those that
# are not part of a shared library. A function that other files call is local in a program, because it is hidden.
linking() { # FILE
    local object=$build/${1%.c}.o symbols program
    [ -f "$object" ] || object=$build/${1%/*}/.libs/$(basename "$1" .c).o
    symbols=$(nm "$object" | awk '$2 == "T" || $2 == "D" || $2 == "R" { print $3 }' | paste -sd '|')
    [ -n "$symbols" ] || return
    for program in $(make -s -C "$build" print-unit-tests); do
        ! nm "$build/$program" | grep -E " [TtDdRr] ($symbols)\$" >/dev/null || echo "${program##*/}"
    done
}

stale=0
"$mutate" stale "$root" "${tables[@]}" "$root"/test/{device,mpix}/mutants.txt "$root/test/model/orders.txt" || stale=1
[ $stale = 0 ] && echo "all $("$mutate" list "${tables[@]}" "$root"/test/{device,mpix}/mutants.txt "$root/test/model/orders.txt" | wc -l) mutants apply"

mkdir -p "$work/asked"
: >"$work/results"
seed=${seed:-1}
known=$(make -s -C "$build" print-unit-tests | sed 's|.*/||')
if [ -n "$generate" ]; then
    rounds=1
    make -s -C "$build" -j"$jobs" unit >"$work/unit.log" 2>&1 || die "the unit tests do not build"
    [ -n "$programs" ] || programs=$(linking "$generate" | paste -sd ' ')
    [ -n "$programs" ] || die "no unit test has the code of $generate"
    # shellcheck disable=SC2046,SC2086
    prepare plain $(printf 'test/unit/%s ' $programs)
    ordered=$("$mutate" list "${tables[@]}" | awk '$3 == "thread" { for (i = 4; i <= NF; i++) if (!n[$i]++) print $i }' | paste -sd ' ')
    candidates=$("$mutate" generate "$root" "$generate" | grep -E "^(${operators// /|})-" | choose)
    [ -n "$candidates" ] || die "the operators '$operators' make no mutants of $generate"
    # shellcheck disable=SC2046,SC2086
    ! grep -q '^order' <<<"$candidates" || prepare thread $(printf 'test/unit/%s\n' $ordered | sed 's/:.*//' | sort -u)
    pool generated <<<"$candidates"
    awk '{ n[$1]++ } END { printf "%d killed, %d survived, %d invalid or unsound\n", n["killed"], n["SURVIVED"], n["INVALID"] + n["UNSOUND"] }' \
        "$work/results"
    exit 0
fi

wanted() {
    local name own kind tests test
    "$mutate" list "${tables[@]}" | while read -r name own kind tests; do
        if [ ${#names[@]} -gt 0 ]; then
            [[ " ${names[*]} " = *" $name "* ]] || continue
        elif [ -n "$module" ]; then
            [ "$own" = "$module" ] || continue
        elif [ -n "$random" ]; then
            [ "$kind" = plain ] || continue
        else
            [ $all = 1 ] || continue
        fi
        # Tests that need something that this machine lacks are not in the build.
        for test in $tests; do
            grep -qxF -- "${test%%:*}" <<<"$known" || {
                echo "$name left out: this build has no ${test%%:*}" >&2
                continue 2
            }
        done
        echo "$name $own $kind $tests"
    done
}
chosen=$(wanted | choose)
[ -z "$random" ] || echo "$random mutants, seed $seed: test/mutants/run.sh ${build##*/} --random $random --seed $seed"
for name in "${names[@]}"; do
    grep -q "^$name " <<<"$chosen" || echo "there is no mutant $name, or it was left out"
done
for kind in plain thread; do
    targets=$(awk -v kind=$kind '$3 == kind { for (i = 4; i <= NF; i++) { sub(/:.*/, "", $i); print "test/unit/" $i } }' <<<"$chosen" | sort -u)
    # shellcheck disable=SC2086
    [ -z "$targets" ] || prepare $kind $targets
done
[ -z "$chosen" ] || pool mutant <<<"$chosen"
if [ -z "$chosen" ]; then
    echo "$((1 - stale)) passed, $stale failed"
else
    awk -v stale=$stale '{ n[$1]++ }
        END {
            printf "killed %d, survived %d, cannot tell %d, invalid or stale %d\n", n["killed"], n["SURVIVED"], n["UNSOUND"],
                n["INVALID"] + n["STALE"]
            printf "%d passed, %d failed\n", n["killed"], NR - n["killed"] - n["UNSOUND"] + stale
        }' "$work/results"
fi
[ $stale = 0 ] && ! grep -qE 'SURVIVED|INVALID|STALE' "$work/results"
