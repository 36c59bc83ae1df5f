#!/bin/bash
# compile_commands.sh BUILD: writes BUILD/compile_commands.json for clangd and other tools: how make compiles each source.
# Nothing is compiled.
set -euo pipefail
cd "$1"
mapfile -t sources < <(cd .. && transports=(*_tl) && find ompi_coll_dma mpix "${transports[@]}" test tools examples -name '*.c')
# make treats every source as changed, and prints what it would do. For `-W` it compares names as its rules have them.
changed=()
for source in "${sources[@]}"; do
    changed+=(-W "$source" -W "../$source")
done
make -n V=1 "${changed[@]}" all programs unit 2>/dev/null | grep -E '(^|[^-])-c (-o|.* -o) [^ ]+\.l?o' |
    sed 's/^.*--mode=compile *//; s/ *\(&&\|;\) *\\\{0,1\}$//; s/^depbase=[^;]*;//; s/ -MT [^ ]*//; s/ -M[DP]\b//g; s/ -MF [^ ]*//' |
    awk -v folder="$PWD" '
        {
            # The source is `test -f NAME || echo ../`NAME if names begin in the folder above.
            gsub(/`test -f .[^`]*`/, "../")
            gsub(/\.\.\/\.\.\//, "../")
            gsub(/[[:space:]]+/, " ")
            gsub(/\\/, "\\\\")
            gsub(/"/, "\\\"")
            source = ""
            for (i = 1; i <= NF; i++)
                if ($i ~ /\.c$/)
                    source = $i
            if (source == "")
                next
            if (source !~ /^(\.\.)?\//) {
                sub("(^| )" source, " ../" source)
                source = "../" source
            }
            if (seen[source]++)
                next
            printf "%s{\"directory\": \"%s\", \"file\": \"%s\", \"command\": \"%s\"}", (n++ ? ",\n" : "[\n"), folder, source, $0
        }
        END { print (n ? "" : "[") "\n]" }' >compile_commands.json
echo "$(grep -c '"file"' compile_commands.json) sources in $1/compile_commands.json"
