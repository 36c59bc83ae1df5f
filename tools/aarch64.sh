#!/bin/bash
# aarch64.sh root | configure DIR OPTION... | run CMD...: builds for 64-bit Arm on another machine, and runs the results.
#
# `root` makes build-aarch64-root/root from the packages that Debian has for arm64 in this machine's release: Open MPI, UCX,
# Check and what they need. `configure` makes DIR a build of this tree with Debian's cross compiler (gcc-aarch64-linux-gnu)
# against that root. `run` runs a program of such a build in QEMU (qemu-user-static), with the libraries of the root and, for
# ranks, the component in build-aarch64. Programs that it starts itself do not run so. Exit status 77, and a line that says
# why: it is not possible here. Otherwise the exit status of `run` is that of CMD.
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=tools/packages.sh
. "$top/tools/packages.sh"
at=$top/build-aarch64-root
arch=arm64
# More than MPI programs need: mpicc and ompi_info, which configure runs.
packages='libc6-dev openmpi-bin libopenmpi-dev libpmix-dev libucx-dev check systemtap-sdt-dev base-files'

release() {
    # shellcheck source=/dev/null
    (. /etc/os-release && echo "${VERSION_CODENAME:-none}")
}

# What configure starts: programs of the root, and a pkg-config that looks there.
make_scripts() {
    local root=$at/root name
    mkdir -p "$at/bin"
    for name in mpicc:opal_wrapper ompi_info:ompi_info; do
        printf '#!/bin/sh\nOPAL_PREFIX=%q exec qemu-aarch64-static -0 %q -L %q %q "$@"\n' "$root/usr" "${name%:*}" "$root" \
            "$root/usr/bin/${name#*:}" >"$at/bin/${name%:*}"
    done
    printf '#!/bin/sh\nPKG_CONFIG_SYSROOT_DIR=%q PKG_CONFIG_LIBDIR=%q exec pkg-config "$@"\n' "$root" \
        "$root/usr/lib/aarch64-linux-gnu/pkgconfig:$root/usr/share/pkgconfig" >"$at/bin/pkg-config"
    chmod +x "$at"/bin/*
}

# A file or folder that must not be incomplete is made beside its place and moved into it.
make_root() {
    local release stamp wanted
    { command -v apt-get && command -v dpkg-deb; } >/dev/null || skip 'there is no apt here to fetch the libraries with'
    command -v aarch64-linux-gnu-gcc >/dev/null || skip 'there is no aarch64-linux-gnu-gcc (Debian: gcc-aarch64-linux-gnu)'
    command -v qemu-aarch64-static >/dev/null || skip 'there is no qemu-aarch64-static (Debian: qemu-user-static)'
    release=$(release)
    stamp="$at $(cat "$top"/tools/{aarch64,packages}.sh | cksum)"
    [ "$stamp" != "$(cat "$at/stamp" 2>/dev/null)" ] || return 0
    rm -rf "$at"
    mkdir -p "$at/root"
    lists "$release" "$at/apt"
    # shellcheck disable=SC2086
    mapfile -t wanted < <(needed "$at/apt" $packages)
    fetch "$at/apt" "${wanted[@]}"
    # With links where the release has them, because other packages use paths through them.
    unpack_one "$at"/apt/new/base-files_*.deb "$at/root"
    unpack "$at/apt" "$at/root"
    make_scripts
    echo "$stamp" >"$at/stamp"
    echo "Open MPI $("$at/bin/ompi_info" --version | sed -n 's/^Open MPI v//p') for arm64 from $release"
}

# configure DIR OPTION...
configure() {
    local dir=$1 stamp
    shift
    stamp="$(cat "$at/stamp") $*"
    [ "$stamp" != "$(cat "$dir/.configured" 2>/dev/null)" ] || return 0
    rm -rf "$dir"
    mkdir -p "$dir"
    # Nothing that the other machine lacks is asked of this machine's compiler, for example the headers of ROCm.
    (cd "$dir" && "$top/configure" --host=aarch64-linux-gnu --with-ompi="$at" PKG_CONFIG="$at/bin/pkg-config" \
        CC="aarch64-linux-gnu-gcc --sysroot=$at/root" "$@")
    echo "$stamp" >"$dir/.configured"
}

main() {
    case ${1:-} in
    root) make_root ;;
    configure) configure "${@:2}" ;;
    run)
        exec qemu-aarch64-static -L "$at/root" -E LD_LIBRARY_PATH="$at/root/usr/lib/aarch64-linux-gnu" -E OPAL_PREFIX="$at/root/usr" \
            -E OMPI_MCA_mca_base_component_path="$top/build-aarch64/mca:$at/root/usr/lib/aarch64-linux-gnu/openmpi/lib/openmpi3" "${@:2}"
        ;;
    *)
        echo 'usage: aarch64.sh root, aarch64.sh configure DIR OPTION..., or aarch64.sh run CMD...' >&2
        exit 2
        ;;
    esac
}
# On one line, so that the script may be edited while it runs.
main "$@"; exit
