#!/bin/bash
# mutants.sh [BUILD [NAME...]]: checks that the tests of libmpix_dma notice faults. For each mutant, it runs a job, which must
# pass without the mutant and fail with it. Not part of ./check: it takes minutes.
#
# The mutants are in mutants.txt, in the format of test/mutants (see the README there), with one difference: a mutant has a
#     job      PROGRAM KIND ARGS...
# instead of unit tests. `test/mutants/run.sh BUILD --stale` also checks that these mutants apply.
set -uo pipefail
# shellcheck source=test/mpix/common.sh
. "$(dirname "$0")/common.sh"
shift
patience=1
tree=$work/tree library=$work/libmpix_dma.so.0
mkdir -p "$tree/ompi_coll_dma/gpu"
cp -r "$root/include" "$root/mpix" "$tree"
cp "$root"/ompi_coll_dma/gpu/base.[ch] "$tree/ompi_coll_dma/gpu"
mutate=$work/mutate
gcc -std=gnu11 -D_GNU_SOURCE -O1 -w -o "$mutate" "$root"/test/mutants/*.c || exit 1
# shellcheck source=/dev/null
. "$build/config/build.env"
read -ra flags < <("${dma_ompi_bindir:?}/mpicc" -showme:compile)
read -ra libraries < <("$dma_ompi_bindir/mpicc" -showme:link)

assemble() {
    gcc -std=gnu11 -O1 -g -w -fPIC -shared -pthread -D_GNU_SOURCE -I"$tree/include" -I"$tree/ompi_coll_dma" "${flags[@]}" -Wl,-soname,libmpix_dma.so.0 \
        -o "$library" "$tree"/mpix/*.c "$tree"/ompi_coll_dma/gpu/base.c "${libraries[@]}" -ldl
}

# shellcheck disable=SC2046
[ $# -gt 0 ] || set -- $("$mutate" list "$here/mutants.txt" | sed 's/ .*//')
for name; do
    read -ra words < <("$mutate" list "$here/mutants.txt" | sed -n "s/^$name [^ ]* [^ ]* //p")
    sound() {
        assemble && job 30 4 "${words[@]}"
    }
    noticed() {
        local files file status=0
        "$mutate" apply "$root" "$tree" "$name" "$here/mutants.txt" >"$work/files" || return 1
        mapfile -t files <"$work/files"
        assemble && ! job 20 4 "${words[@]}" || status=1
        for file in "${files[@]}"; do
            cp "$root/$file" "$tree/$file"
        done
        return $status
    }
    ok "$name: the job passes without it: ${words[*]}" sound
    ok "$name: noticed" noticed
done
finish
