#!/bin/bash
# symbols.sh CHECK BUILD: checks the symbols of the component's objects. Part of the suite style. CHECK is one of
#   folders   which folder calls which, against the list between <!-- folder-calls --> and <!-- /folder-calls --> in
#             docs/dev/architecture.md; and no circle of folders
#   callers   functions and variables that are not static have a user in another source of the component
#   circles   no file uses a symbol of another one of its folder that uses its own, directly or through others
#   names     no two types, and no two functions that are not static, have the same name
#   selftest  the checks above fail when they should
# test/symbols-allowed.txt lists exceptions, with reasons. An exception that is no longer needed is an error too, unless its
# reason is "to go". A folder is one below ompi_coll_dma, or that of a transport (*_tl). A source in ompi_coll_dma itself is
# a folder of its own name. A use of a symbol counts as a call.
set -uo pipefail
check=${1:?} build=${2:?}
root=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "$build" && pwd) || exit 1
cd "$root" || exit 1
document=docs/dev/architecture.md
[ -e $document ] || document=test/folder-calls.txt
allowed=test/symbols-allowed.txt
transports=(*_tl)
more=()
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# facts OBJECT...: lines "defines|static|uses SOURCE SYMBOL KIND" with KIND function or data. The objects are named relative to
# the build. One nm reads them all, because a start of it takes longer than the reading.
facts() {
    nm -A "$@" | awk '
        {
            type = $(NF - 1); name = $NF
            source = $1
            sub(/:.*/, "", source)
            sub(/\.libs\//, "", source)
            sub(/(mca_coll|libmpix)_dma_la-/, "", source)
            sub(/o$/, "c", source)
            sub(/\.(constprop|isra|part|cold|lto_priv).*/, "", name)
        }
        name ~ /^(\.|_\.stapsdt|_GLOBAL_OFFSET_TABLE_)/ || name ~ /\.[0-9]+$/ { next }
        type == "U" { print "uses", source, name, "-"; next }
        type == "T" || type == "W" { print "defines", source, name, "function"; next }
        type ~ /^[DBRCV]$/ { print "defines", source, name, "data"; next }
        type == "t" { print "static", source, name, "function" }' | sort -u
}

# all_facts FOLDER...: of all objects there. A build may still have those of removed sources.
all_facts() {
    local object source objects=()
    while read -r object; do
        source=${object/.libs\//}
        source=${source/mca_coll_dma_la-/}
        source=${source/libmpix_dma_la-/}
        [ ! -e "${source%.o}.c" ] || objects+=("$object")
    done < <(cd "$build" && find "$@" -path '*/.libs/*.o' | sort)
    [ ${#objects[@]} -gt 50 ] || { echo "there are only ${#objects[@]} objects in $build: make" >&2 && return 1; }
    (cd "$build" && facts "${objects[@]}")
}

# exceptions KIND: the words after it in the list of exceptions
exceptions() {
    sed -n "s/^$1 \([^:]*\):.*/\1/p" $allowed
}

# stale KIND WORDS: an exception that is not needed
stale() {
    echo "$allowed: the exception '$1 $2' is not needed any more: delete it"
    grep -q "^$1 $2: to go$" $allowed
}

# listed: "CALLER CALLEE" lines
listed() {
    sed -n '/<!-- folder-calls -->/,/<!-- \/folder-calls -->/p' $document |
        awk -F: '/^[a-z_]+:/ { n = split($2, callees, " "); for (i = 1; i <= n; i++) print $1, callees[i] }'
}

# arrows FACTS: "CALLER CALLEE SOURCE SYMBOL" lines, between different folders
arrows() {
    awk '
        function folder(source, parts, n) {
            n = split(source, parts, "/")
            if (parts[1] != "ompi_coll_dma")
                return parts[1]
            sub(/\.c$/, "", parts[2])
            return parts[2]
        }
        NR == FNR { if ($1 == "defines") owner[$3] = folder($2); next }
        $1 == "uses" && ($3 in owner) && owner[$3] != folder($2) { print folder($2), owner[$3], $2, $3 }' "$1" "$1" | sort -u
}

# circle: prints one circle of the arrows that are read, if there is any. It removes what nothing calls until nothing is
# left.
circle() {
    awk '
        !(($1, $2) in seen) && $1 != $2 { seen[$1, $2] = 1; from[++n] = $1; to[n] = $2 }
        END {
            do {
                split("", called)
                for (i = 1; i <= n; i++) if (from[i] != "") called[to[i]] = 1
                gone = 0
                for (i = 1; i <= n; i++) if (from[i] != "" && !(from[i] in called)) { from[i] = ""; gone = 1 }
            } while (gone)
            do {
                split("", calls)
                for (i = 1; i <= n; i++) if (from[i] != "") calls[from[i]] = 1
                gone = 0
                for (i = 1; i <= n; i++) if (from[i] != "" && !(to[i] in calls)) { from[i] = ""; gone = 1 }
            } while (gone)
            for (i = 1; i <= n; i++) if (from[i] != "") { print "in a circle: " from[i] " calls " to[i]; bad = 1 }
            exit bad
        }'
}

check_folders() {
    local bad=0
    listed >"$work/listed"
    [ -s "$work/listed" ] || { echo "$document has no list between <!-- folder-calls --> and <!-- /folder-calls -->" && return 1; }
    arrows "$1" >"$work/arrows"
    # Arrows whose reason is "to go" do not count, neither here nor for circles.
    exceptions folders >"$work/exceptions"
    awk 'FILENAME == ARGV[1] { gone[$1, $2] = 1; next } !(($1, $2) in gone)' "$work/exceptions" "$work/arrows" >"$work/counted"
    awk 'NR == FNR { listed[$1, $2] = 1; next }
        !(($1, $2) in listed) { print $3 " calls " $4 ": folder " $1 " must not call " $2; bad = 1 }
        END { exit bad }' "$work/listed" "$work/counted" || bad=1
    circle <"$work/counted" || bad=1
    circle <"$work/listed" || bad=1
    while read -r arrow; do
        grep -q "^$arrow " "$work/arrows" || stale folders "$arrow" || bad=1
    done <"$work/exceptions"
    return $bad
}

check_callers() {
    local bad=0 symbol
    awk 'NR == FNR { if ($1 == "uses") used[$3] = 1; next }
        $1 == "defines" && !($3 in used) { print $3, $2 }' "$1" "$1" | sort >"$work/unused"
    exceptions callers >"$work/exceptions"
    while read -r symbol source; do
        grep -qxF "$symbol" "$work/exceptions" || {
            echo "$source: $symbol is used by no other source of the component: make it static, or delete it"
            bad=1
        }
    done <"$work/unused"
    while read -r symbol; do
        grep -q "^$symbol " "$work/unused" || stale callers "$symbol" || bad=1
    done <"$work/exceptions"
    return $bad
}

# types FOLDER...: "NAME FILE" of each struct, union, enum and typedef that is defined there. A definition that repeats
# another word for word, as a forward declaration may, counts once
# shellcheck disable=SC2016
types() {
    # shellcheck disable=SC2016
    find "$@" -name '*.[ch]' | sort | xargs awk '
        FNR == 1 { inside = 0 }
        /^(typedef )?(struct|union|enum) [a-z_0-9]+ \{/ {
            name = $0
            sub(/ \{.*/, "", name)
            sub(/^.* /, "", name)
            print name, FILENAME
        }
        /^typedef .*[^,{]$/ && !/\{/ && /;/ {
            name = $0
            if (match(name, /\(\*[a-z_0-9]+\)/))
                name = substr(name, RSTART + 2, RLENGTH - 3)
            else {
                sub(/(\[[^]]*\])?;.*/, "", name)
                sub(/^.*[ *]/, "", name)
            }
            if (!(($0) in seen))
                print name, FILENAME
            seen[$0] = 1
        }
        /^\} [a-z_0-9]+;/ {
            name = $2
            sub(/;.*/, "", name)
            print name, FILENAME
        }'
}

# The folders and the uses (FILE FILE) among the exceptions do not count.
check_circles() {
    local bad=0 words
    awk '
        function folder(source, parts) {
            split(source, parts, "/")
            return parts[1] != "ompi_coll_dma" ? parts[1] : parts[2] == "engine" ? "engine/" parts[3] : parts[2]
        }
        NR == FNR { if ($1 == "defines") owner[folder($2), $3] = $2; next }
        $1 == "uses" && ((folder($2), $3) in owner) && owner[folder($2), $3] != $2 {
            print $2, owner[folder($2), $3], folder($2) }' "$1" "$1" | sort -u >"$work/calls"
    exceptions circles >"$work/exceptions"
    without() {
        awk -v but="$1" 'FILENAME == ARGV[1] { gone[$0] = $0 != but; next }
            !gone[$3] && !gone[$1 " " $2]' "$work/exceptions" "$work/calls"
    }
    without '' | circle || bad=1
    while read -r words; do
        ! without "$words" | circle >/dev/null || stale circles "$words" || bad=1
    done <"$work/exceptions"
    return $bad
}

check_names() {
    local bad=0
    {
        types include ompi_coll_dma "${transports[@]}" ${2:+"$2"} | sed 's/^/type /'
        awk '$1 == "defines" { print "symbol", $3, $2 }' "$1"
    } | sort -u | awk '{ n[$1, $2]++; where[$1, $2] = where[$1, $2] " " $3; name[$1, $2] = $2 }
        END { for (i in n) if (n[i] > 1) print name[i] ":" where[i] }' | sort >"$work/twice"
    exceptions names >"$work/exceptions"
    while IFS=: read -r name where; do
        grep -qxF "$name" "$work/exceptions" || {
            echo "$name names two things:$where"
            bad=1
        }
    done <"$work/twice"
    while read -r name; do
        grep -q "^$name:" "$work/twice" || stale names "$name" || bad=1
    done <"$work/exceptions"
    return $bad
}

# Static functions with the same name: allowed, and counted.
count_static() {
    awk '$1 == "static" && $4 == "function" { print $3, $2 }' "$1" | sort -u | awk '{ n[$1]++ }
        END { for (name in n) if (n[name] > 1) { names++; all += n[name] } print names + 0 " names of static functions are used " all + 0 " times" }'
}

# seeded SOURCE TEXT: the facts, with those of one more source
seeded() {
    mkdir -p "$work/$(dirname "$1")"
    printf '%s\n' "$2" >"$work/$1"
    ${CC:-cc} -c -o "$work/${1%.c}.o" "$work/$1" || return 1
    { cat "$work/facts" && (cd "$work" && facts "${1%.c}.o"); } >"$work/seeded"
}

# notices PATTERN CMD...: CMD fails, and prints a line with this pattern
notices() {
    local pattern=$1 output
    shift
    if output=$("$@") || ! grep -q "$pattern" <<<"$output"; then
        echo "not noticed: $pattern"
        printf '%s\n' "$output"
        return 1
    fi
}

selftest() {
    local bad=0 symbol type
    symbol=$(awk '$1 == "defines" && $2 ~ /coll_dma\/core\// && $4 == "function" && !seen++ { print $3 }' "$work/facts")
    type=$(types include | awk 'NR == 1 { print $1 }')
    seeded ompi_coll_dma/plan/seed.c "void $symbol(void); void dma_seed(void); void dma_seed(void) { $symbol(); }" || return
    notices "plan/seed.c calls $symbol: folder plan must not call core" check_folders "$work/seeded" || bad=1
    notices 'in a circle: plan calls core' check_folders "$work/seeded" || bad=1
    notices 'seed.c: dma_seed is used by no other source' check_callers "$work/seeded" || bad=1
    notices 'is not needed any more: delete it' check_callers /dev/null || bad=1
    seeded ompi_coll_dma/core/seed.c "void dma_comm_advance(void); void dma_host_advance(void); void dma_host_advance(void) { dma_comm_advance(); }" || return
    notices 'in a circle: ompi_coll_dma/core/seed.c calls' check_circles "$work/seeded" || bad=1
    seeded ompi_coll_dma/plan/seed.c "void $symbol(void); void $symbol(void) { }" || return
    notices "$symbol names two things" check_names "$work/seeded" || bad=1
    seeded ompi_coll_dma/plan/seed.c "struct $type {
int x;
};" || return
    notices "$type names two things" check_names "$work/seeded" "$work/ompi_coll_dma" || bad=1
    return $bad
}

[ "$check" != circles ] || more=(mpix)
all_facts ompi_coll_dma "${transports[@]}" "${more[@]}" >"$work/facts" || exit 1
case $check in
folders | callers | circles | names) "check_$check" "$work/facts" ;;
static) count_static "$work/facts" ;;
selftest) selftest ;;
*) exit 2 ;;
esac
