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

# An Open MPI of which only these programs run. Builders of packages have no hosts for jobs, and allow no root to start them.
only_runs() {
    local name
    rm -rf quiet
    mkdir -p quiet/bin
    # shellcheck disable=SC2016
    printf '#!/bin/sh\necho "$0 $*" >>%s/quiet/ran\nexit 1\n' "$work" >quiet/bin/mpirun
    chmod +x quiet/bin/mpirun
    for name in ompi_info prterun orterun; do
        cp quiet/bin/mpirun "quiet/bin/$name"
    done
    for name; do
        printf '#!/bin/sh\nexec %s/%s "$@"\n' "${dma_ompi_bindir:?}" "$name" >"quiet/bin/$name"
        chmod +x "quiet/bin/$name"
    done
}

# configures_like_this OPTION...: with that Open MPI, and finds out what this build has
configures_like_this() {
    local fact
    PATH=$work/quiet/bin:$PATH configure --with-ompi="$work/quiet" "$@" || return 1
    [ ! -e quiet/ran ] || { cat quiet/ran; return 1; }
    for fact in version component_dir component_rest path_kept; do
        diff <(grep "dma_ompi_$fact=" "$build/config/build.env") <(grep "dma_ompi_$fact=" config/build.env) || return 1
    done
    [ "$(grep '^OMPI_HELP_DIR =' "$build/Makefile")" = "$(grep '^OMPI_HELP_DIR =' Makefile)" ]
}

no_job() {
    only_runs mpicc ompi_info
    configures_like_this
}

# The host's name only makes it a cross build.
cross_build() {
    only_runs mpicc
    configures_like_this --build="$(uname -m)-pc-linux-gnu" --host="$(uname -m)-other-linux-gnu" CC=gcc PKG_CONFIG=pkg-config
}

# What ./check installs or asks for is what the selected suites need.
parts_of() {
    local parts
    parts=$("$root/check" --run "chosen=($1); quick=${3:-0}; needed_parts" | sort -u | tr '\n' ' ')
    echo "$parts"
    [ "$parts" = "$2" ]
}

# missing PART [NAME=VALUE...]: what is missing for it, in this environment
missing() {
    # shellcheck disable=SC2016
    env root="$root" "${@:2}" bash -c '. "$root/tools/build.sh"; missing_packages "$0"' "$1"
}

# A compiler that finds these headers, and no others.
compiler_with() {
    local dir=$work/headers name
    rm -rf "$dir"
    mkdir -p "$dir/bin"
    for name; do
        mkdir -p "$(dirname "$dir/$name")"
        : >"$dir/$name"
    done
    # A compiler in PATH may be a cache that looks for the next one there.
    printf '#!/bin/sh\nPATH=%s exec gcc -nostdinc -I %s "$@"\n' "$PATH" "$dir" >"$dir/bin/gcc"
    chmod +x "$dir/bin/gcc"
}

# Later releases of Debian have some of ROCm's headers in folders.
headers_of_later_rocm() {
    local found
    compiler_with hsakmt/hsakmt.h hsa/hsa.h hip/hip_runtime_api.h amd_comgr/amd_comgr.h
    found=$(missing node PATH="$work/headers/bin:$PATH")
    echo "$found"
    ! grep -v '^rocminfo$' <<<"$found" | grep .
}

probes_are_optional() {
    local found
    compiler_with
    found=$(missing build PATH="$work/headers/bin:$PATH")
    echo "$found"
    ! grep systemtap <<<"$found" && missing probes PATH="$work/headers/bin:$PATH" | grep systemtap
}

# with_fakes COMMAND: installs with an apt-get and a sudo that succeed only if the whole command has been printed
with_fakes() {
    local name status=0
    mkdir -p "$work/fakes"
    # shellcheck disable=SC2016
    printf '#!/bin/sh\n[ "$*" = -n\ true ] || grep -q "apt-get install .* a-package b-package" "%s/printed" || exit 1\necho "$0 $*" >>"%s/ran"\n' \
        "$work" "$work" >"$work/fakes/apt-get"
    cp "$work/fakes/apt-get" "$work/fakes/sudo"
    chmod +x "$work"/fakes/*
    : >"$work/ran"
    # shellcheck disable=SC2016
    env root="$root" PATH="$work/fakes:$PATH" bash -c '. "$root/tools/build.sh"
        missing_packages() { echo a-package; echo b-package; }
        '"$1" >"$work/printed" 2>&1 || status=$?
    cat "$work/printed" "$work/ran"
    return $status
}

printed_before() {
    with_fakes 'install_packages build' && [ "$(wc -l <"$work/ran")" = 1 ]
}

only_printed() {
    ! with_fakes 'no_install=1; install_packages build' && [ ! -s "$work/ran" ] &&
        grep -q 'apt-get install .* a-package b-package' "$work/printed"
}

# Debian has tc and nft in folders that are not in a user's PATH.
found_by_users() {
    local found
    found=$(missing hosts PATH=/usr/local/bin:/usr/bin:/bin)
    echo "$found"
    ! grep -E 'iproute2|nftables' <<<"$found" || ! PATH=$PATH:/usr/sbin:/sbin command -v tc nft
}

ok 'unit tests need Check and UCX' parts_of 'unit style' 'unit '
ok 'the testbed needs more' parts_of bed 'hosts unit '
ok 'the emulated node needs more' parts_of 'emu valgrind' 'memcheck node unit '
ok '--quick needs no runtime of GPUs' parts_of '' 'unit ' 1
ok 'headers of later ROCm are found' headers_of_later_rocm
ok 'nobody must have static probes' probes_are_optional
ok 'how packages are installed is printed first' printed_before
ok '--no-install only prints it' only_printed
ok 'what administrators have is found' found_by_users
ok 'the defaults work' defaults
for series in 3.1 4.0 5.1 6.1 7.0; do
    ok "Open MPI $series is refused, saying what works" unknown_series $series
done
ok 'no job is started' no_job
ok 'a cross build runs only the wrapper' cross_build
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
