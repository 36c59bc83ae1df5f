#!/bin/bash
# configure.sh BUILD: what configure refuses, and what it prints about it. The first run leaves a cache, which saves the
# others the checks that do not depend on their options.
set -euo pipefail
build=$(cd "$1" && pwd)
root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=test/lib.sh
. "$root/test/lib.sh"
# shellcheck source=/dev/null
. "$build/config/build.env"
work=$build/configure-test
rm -rf "$work"
mkdir "$work"
cd "$work"

configure() {
    rm -f once.cache
    [ ! -e config.cache ] || grep -vE 'ac_cv_(path_MPICC|path_.*OMPI|env_|header_(ompi|hip|hsa|cuda))' config.cache >once.cache
    "$root/configure" --cache-file=once.cache "$@"
}

defaults() {
    says "Open MPI +${dma_ompi_version:?}" "$root/configure" --cache-file=config.cache
}

# An Open MPI of another series: the real wrapper and ompi_info, with another version number.
fake_series() {
    local dir=$work/ompi-$1
    mkdir -p "$dir/bin" "$dir/include"
    printf '#define OMPI_MAJOR_VERSION %s\n#define OMPI_MINOR_VERSION %s\n#define OMPI_RELEASE_VERSION 1\n' \
        "${1%.*}" "${1#*.}" >"$dir/include/mpi.h"
    printf '#!/bin/sh\necho -I%s/include\n' "$dir" >"$dir/bin/mpicc"
    printf '#!/bin/sh\necho "Open MPI v%s.1"\n' "$1" >"$dir/bin/ompi_info"
    chmod +x "$dir/bin/mpicc" "$dir/bin/ompi_info"
    echo "$dir"
}

unknown_series() {
    refuses "Open MPI $1.1 is not a series this version knows; it builds with 4.1, 5.0 and 6.0" \
        configure --with-ompi="$(fake_series "$1")"
}

not_open_mpi() {
    mkdir -p other/bin
    printf '#!/bin/sh\nexit 1\n' >other/bin/mpicc
    chmod +x other/bin/mpicc
    refuses "not Open MPI's compiler wrapper" configure --with-ompi="$work/other"
}

mixed_versions() {
    local dir
    dir=$(fake_series 3.9)
    refuses "is of Open MPI 3.9.1, .* of ${dma_ompi_version:?}" configure OMPI_INFO="$dir/bin/ompi_info"
}

# What ./check installs or asks for is what the selected suites need.
parts_of() {
    local parts
    parts=$("$root/check" --run "chosen=($1); needed_parts" | sort -u | tr '\n' ' ')
    echo "$parts"
    [ "$parts" = "$2" ]
}

# Debian has tc and nft in folders that are not in a user's PATH.
found_by_users() {
    local missing
    # shellcheck disable=SC2016
    missing=$(env PATH=/usr/local/bin:/usr/bin:/bin root="$root" bash -c '. "$root/tools/build.sh"; missing_packages hosts')
    echo "$missing"
    ! grep -E 'iproute2|nftables' <<<"$missing" || ! PATH=$PATH:/usr/sbin:/sbin command -v tc nft
}

ok 'unit tests need Check and UCX' parts_of 'unit style' 'unit '
ok 'the testbed needs more' parts_of bed 'hosts unit '
ok 'the emulated node needs more' parts_of 'emu valgrind' 'memcheck node unit '
ok 'what administrators have is found' found_by_users
ok 'the defaults work' defaults
for series in 3.1 4.0 5.1 6.1 7.0; do
    ok "Open MPI $series is refused, saying what works" unknown_series $series
done
ok 'another MPI is refused' not_open_mpi
ok 'an ompi_info of another Open MPI is refused' mixed_versions
ok '--without-ompi is refused' refuses 'builds nothing' configure --without-ompi
ok '--with-ompi=DIR without an Open MPI is refused' refuses 'no mpicc' configure --with-ompi="$work/nowhere"
ok '--with-mca-dir needs an absolute path' refuses 'absolute path' configure --with-mca-dir=here
ok 'UCX asked for and missing is refused' refuses 'UCX was not found' configure --with-ucx="$work/nowhere"
ok 'ROCm asked for and missing is refused' refuses 'ROCm was not found' configure --with-rocm="$work/nowhere"
ok 'CUDA asked for and missing is refused' refuses 'CUDA was not found' configure --with-cuda="$work/nowhere"
ok 'parts not asked for are not looked for' says 'UCX +not looked for' \
    configure --without-ucx --without-rocm --without-cuda
cd "$build"
rm -rf "$work"
finish
