#!/bin/bash
# series.sh root SERIES [full|compilers] | tree SERIES TARBALL | enter SERIES CMD...: another series of Open MPI than this
# machine's, in a root of its own.
#
# `root` makes build-series-SERIES/root from the packages of the Debian release that carries the series. It uses this
# machine's apt, the mirror that apt is configured with and its keys. Packages are unpacked, not installed: nothing of them
# runs outside of the root, and this machine's own packages do not change. `full` adds what only some suites need,
# `compilers` clang. `tree` unpacks a release tarball there, as /coll-dma. The build of the previous one stays. `enter` runs
# CMD in /coll-dma there, in namespaces of its own. When its last process ends, every mount is gone, whatever happens. When
# this script ends, every process is. Both need root, or a kernel that lets users make namespaces. Exit status 77, and a line
# that says why: the series is not available here. Otherwise the exit status of `enter` is that of CMD.
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=tools/packages.sh
. "$top/tools/packages.sh"

# Where each series is, and what a build and its tests need.
packages='gcc libc6-dev make pkg-config openmpi-bin libopenmpi-dev libpmix-dev libucx-dev check
    bash coreutils diffutils findutils gawk grep gzip hostname login mount passwd procps python3 sed tar util-linux'
# With `full`: what the further suites need, and the release's own ROCm, below which the node is emulated.
more='valgrind iproute2 nftables'
rocm_of() {
    case $1 in
    5.0) echo libamd-comgr2 libamdhip64-5 libhiprtc-builtins5 libhsa-runtime64-1 libhsakmt1 rocminfo ;;
    6.0) echo libamd-comgr3 libamdhip64-6 libhiprtc-builtins6 libhiprtc6 libhsa-runtime64-1 rocminfo ;;
    esac
}
# Their headers. The packages ask for compilers that nobody here uses.
rocm_headers_of() {
    echo libamd-comgr-dev libamdhip64-dev libhsa-runtime-dev
    [ "$1" != 5.0 ] || echo libhsakmt-dev
}
# With `compilers`: these packages, and what they depend on if the root does not have it yet.
compilers='clang lld llvm'
compilers_wanted='(clang|lld|llvm)(-.*)?|libclang.*|libedit.*|libbsd.*|libffi.*|libicu.*|libllvm.*|libmd.*|libpfm.*|libtinfo.*
    |libxml2.*|libz3.*|libzstd.*|zlib1g'
release_of() {
    case $1 in
    5.0) echo trixie ;;
    6.0) echo forky ;;
    *) return 1 ;;
    esac
}

usage() {
    echo 'usage: series.sh root 5.0|6.0 [full|compilers], series.sh tree 5.0|6.0 TARBALL, or series.sh enter 5.0|6.0 CMD...' >&2
    exit 2
}

# Into namespaces of our own, as root or as a user who looks like root.
namespaces=(unshare --mount --pid --ipc --fork --kill-child --propagation private)
[ "$(id -u)" = 0 ] || namespaces+=(--user --map-root-user)

# unpack_here DIR ROOT: also tells the loader where the libraries are
unpack_here() {
    unpack "$@"
    "${namespaces[@]}" chroot "$2" /sbin/ldconfig
}

# What the packages' own scripts would do.
finish_root() {
    local root=$1 name
    mkdir -p "$root"/{proc,sys,dev,tmp,root,coll-dma}
    printf 'root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n' >"$root/etc/passwd"
    printf 'root:x:0:\nnogroup:x:65534:\n' >"$root/etc/group"
    printf '127.0.0.1 localhost %s\n' "$(hostname)" >"$root/etc/hosts"
    for name in mpicc mpirun mpiexec; do
        ln -sf $name.openmpi "$root/usr/bin/$name"
    done
    ln -sf gawk "$root/usr/bin/awk"
}

# make_full SERIES: adds the rest to the root
make_full() {
    local series=$1 at=$top/build-series-$1 wanted release
    [ ! -e "$at/full" ] || return 0
    release=$(release_of "$series")
    rm -rf "$at/apt"
    lists "$release" "$at/apt"
    # shellcheck disable=SC2046,SC2086
    mapfile -t wanted < <(unwanted_rocm='' needed "$at/apt" $more $(rocm_of "$series"))
    # shellcheck disable=SC2046
    fetch "$at/apt" "${wanted[@]}" $(rocm_headers_of "$series")
    unpack_here "$at/apt" "$at/root"
    # A build that was configured without all this is removed.
    rm -rf "$at/root/coll-dma/build"
    touch "$at/full"
}

# make_compilers SERIES: adds clang to the root
make_compilers() {
    local series=$1 at=$top/build-series-$1 wanted
    [ ! -e "$at/compilers" ] || return 0
    rm -rf "$at/apt-compilers"
    lists "$(release_of "$series")" "$at/apt-compilers"
    # shellcheck disable=SC2086
    mapfile -t wanted < <(unwanted='' unwanted_rocm='' needed "$at/apt-compilers" $compilers | grep -xE "$(tr -d ' \n' <<<"$compilers_wanted")")
    fetch "$at/apt-compilers" "${wanted[@]}"
    unpack_here "$at/apt-compilers" "$at/root"
    touch "$at/compilers"
}

# A file or folder that must not be incomplete is made beside its place and moved into it.
make_root() {
    local series=$1 at=$top/build-series-$1 release stamp found wanted extra
    release=$(release_of "$series")
    "${namespaces[@]}" true 2>/dev/null || skip 'this machine gives no right to make namespaces'
    if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
        skip "there is no apt here to fetch $release with"
    fi
    stamp=$(cat "$top"/tools/{series,packages}.sh | cksum)
    [ "$stamp" != "$(cat "$at/stamp" 2>/dev/null)" ] || return 0
    rm -rf "$at"
    mkdir -p "$at/root.new"
    lists "$release" "$at/apt"
    extra=()
    [ "$series" != 6.0 ] || extra=(libucc-dev)
    # shellcheck disable=SC2086
    mapfile -t wanted < <(needed "$at/apt" $packages "${extra[@]}" '?essential')
    fetch "$at/apt" "${wanted[@]}"
    # With /bin and the like as links, because other packages use paths through them.
    unpack_one "$at"/apt/new/base-files_*.deb "$at/root.new"
    finish_root "$at/root.new"
    unpack_here "$at/apt" "$at/root.new"
    found=$("$0" enter-new "$series" ompi_info --version | sed -n 's/^Open MPI v//p')
    case $found in
    "$series".*) ;;
    *) skip "$release has Open MPI ${found:-not at all}, not $series" ;;
    esac
    mv "$at/root.new" "$at/root"
    echo "$stamp" >"$at/stamp"
    echo "Open MPI $found from $release"
}

# The tarball keeps the times of files, by which make sees what has changed.
unpack_tree() {
    local tree=$top/build-series-$1/root/coll-dma tarball=$2
    rm -rf "$tree.new"
    mkdir "$tree.new"
    tar -xf "$tarball" -C "$tree.new" --strip-components=1 --no-same-owner
    [ ! -d "$tree/build" ] || mv "$tree/build" "$tree.new/"
    rm -rf "$tree"
    mv "$tree.new" "$tree"
}

# Inside the namespaces: ROOT CMD...
inside() {
    local root=$1
    shift
    # The root of the mount namespace, not only of a process: processes inside make namespaces of their own, and enter them.
    mount --rbind "$root" "$root"
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
    mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
    mount --rbind -o ro /sys "$root/sys"
    cd "$root"
    pivot_root . .
    umount --lazy .
    # Otherwise Open MPI tries every interface, and prints a warning if a machine has none that it likes.
    exec env -i DMA_SERIES_ROOT=1 OMPI_MCA_btl_tcp_if_include=lo PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM=dumb \
        bash -c 'cd /coll-dma && exec "$@"' - "$@"
}

main() {
    if [ $# -lt 2 ] || { [ "$1" != inside ] && ! release_of "$2" >/dev/null; }; then
        usage
    fi
    case $1 in
    root)
        make_root "$2"
        [ "${3:-}" != full ] || make_full "$2"
        [ "${3:-}" != compilers ] || make_compilers "$2"
        ;;
    tree) unpack_tree "$2" "$3" ;;
    # Replaces this process, so that a signal that ends it ends everything.
    enter) exec "${namespaces[@]}" "$top/tools/series.sh" inside "$top/build-series-$2/root" "${@:3}" ;;
    enter-new) exec "${namespaces[@]}" "$top/tools/series.sh" inside "$top/build-series-$2/root.new" "${@:3}" ;;
    inside) inside "${@:2}" ;;
    *) usage ;;
    esac
}
# On one line, so that the script may be edited while it runs.
main "$@"; exit
