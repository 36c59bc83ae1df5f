#!/bin/bash
# docs.sh [full]: every command that a document has in a block of its own is run, or commands.txt says where it is run, or
# why it cannot be run. Runs inside ./with-build, in a folder that shows this tree, so that what commands leave behind is
# removed with the folder.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
# shellcheck source=test/lib.sh
. "$here/../lib.sh"
full=${1:-}
build=$(cd "$DMA_TEST_BIN/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export scratch
mkdir "$scratch/tree" "$scratch/home"
ln -s "$root"/* "$scratch/tree/"
ln -sfn "$build" "$scratch/tree/build"
ln -s "$build/examples/allgather_check" "$scratch/tree/program"
cd "$scratch/tree" || exit 1
export HOME=$scratch/home PATH=$build/tools/info:$build/tools/trace:$build/tools/bench:$PATH OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1

mapfile -t documents < <(cd "$root" && find . -name '*.md' -not -path './build*' -not -path './.*' | sort)
commands=$(cd "$root" && python3 "$here/extract.py" "${documents[@]}" | cut -f2 | sort -u)

# how COMMAND: the line after it in the table
how() {
    awk -v wanted="$1" '/^command +/ { sub(/^command +/, ""); found = $0 == wanted; next } found && NF { print; exit }' \
        "$here/commands.txt"
}

is_suite() {
    "$root/check" --list | grep -xF -- "$1" >/dev/null
}

# try COMMAND HOW: it prints nothing if it was right
try() {
    local command=$1 word=${2%% *} what=''
    [[ $2 != *' '* ]] || what=${2#* }
    what=${what#"${what%%[! ]*}"}
    case $word in
    run | full) timeout 600 bash -c "${what:-$command}" ;;
    suite) is_suite "$what" ;;
    never) [ -n "$what" ] ;;
    *) echo "commands.txt does not say what to do with it" && false ;;
    esac
}

# In the order of the table, because some need what others have left.
names=$(sed -n 's/^command *//p' "$here/commands.txt")
while read -r command; do
    way=$(how "$command")
    [[ $way != full* ]] || [ "$full" = full ] || continue
    ok "$command" try "$command" "$way"
done <<<"$names"

the_same() {
    diff <(sort <<<"$names") <(echo "$commands")
}
ok 'the table and the documents name the same commands' the_same
finish
