#!/bin/bash
# series.sh root SERIES | tree SERIES TARBALL | enter SERIES CMD...: another series of Open MPI than this machine's, in a
# root of its own.
#
# `root` makes build-series-SERIES/root from the packages of the Debian release that carries the series. It uses this
# machine's apt, the mirror that apt is configured with and its keys; packages are unpacked, not installed: nothing of
# them runs outside of the root, and this machine's own packages stay as they are.
# `tree` unpacks a release tarball in there, as /coll-dma; what was built from the one before stays.
# `enter` runs CMD in /coll-dma there, in namespaces of its own: with the last process every mount is gone, whatever happens, and
# with this one every process. Both need root, or a kernel that lets users make namespaces.
# Exit status 77 and a line that says why: the series cannot be had here. `enter` else has that of CMD.
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)

# Where each series is, and what a build and its tests need. libpmix-dev comes with libopenmpi-dev in some releases only.
packages='gcc libc6-dev make pkg-config openmpi-bin libopenmpi-dev libpmix-dev check
    bash coreutils diffutils findutils gawk grep gzip hostname login passwd procps python3 sed tar util-linux valgrind'
release_of() {
    case $1 in
    5.0) echo trixie ;;
    6.0) echo forky ;;
    *) return 1 ;;
    esac
}

usage() {
    echo 'usage: series.sh root 5.0|6.0, series.sh tree 5.0|6.0 TARBALL, or series.sh enter 5.0|6.0 CMD...' >&2
    exit 2
}

skip() {
    echo "$*"
    exit 77
}

# Into namespaces of our own, as root or as what looks like it.
namespaces=(unshare --mount --pid --ipc --fork --kill-child --propagation private)
[ "$(id -u)" = 0 ] || namespaces+=(--user --map-root-user)

# The mirror that apt gets Debian from.
mirror() {
    local uri
    # apt's own placeholder
    # shellcheck disable=SC2016
    uri=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' 2>/dev/null | head -n 1)
    echo "${uri%/}"
}

# apt_for DIR ARGS...: this machine's apt, with lists, cache and a (empty) database of its own in DIR
apt_for() {
    local dir=$1
    shift
    apt-get -q -o Dir::State="$dir/state" -o Dir::State::status="$dir/status" -o Dir::Cache="$dir/cache" \
        -o Dir::Etc::sourcelist="$dir/sources.list" -o Dir::Etc::sourceparts=- -o Dir::Etc::preferences=- \
        -o Dir::Etc::preferencesparts=- -o Debug::NoLocking=1 -o APT::Sandbox::User="$(id -un)" \
        -o Acquire::Languages=none -o Acquire::Check-Valid-Until=false -o Acquire::Retries=2 \
        -o APT::Install-Recommends=false "$@"
}

# fetch RELEASE DIR: the packages, with all they depend on, as files in DIR/cache/archives
fetch() {
    local release=$1 dir=$2 uri keys=/usr/share/keyrings/debian-archive-keyring.gpg
    uri=$(mirror)
    [ -n "$uri" ] || skip "apt has no Debian mirror here, which $release would come from"
    mkdir -p "$dir/state/lists/partial" "$dir/cache/archives/partial"
    : >"$dir/status"
    [ -e $keys ] && keys="[signed-by=$keys] " || keys=
    echo "deb $keys$uri $release main" >"$dir/sources.list"
    if ! apt_for "$dir" update >"$dir/log" 2>&1 || grep -q '^[WE]: Failed' "$dir/log"; then
        skip "apt's mirror does not serve $release; $dir/log"
    fi
    # shellcheck disable=SC2086
    apt_for "$dir" install -y --download-only $packages '?essential' >>"$dir/log" 2>&1 ||
        skip "the packages of $release cannot be fetched; $dir/log"
}

# unpack DIR ROOT: the packages as they would be once installed, as far as a build and its tests go
unpack() {
    local dir=$1 root=$2 package name
    mkdir -p "$root"
    # With /bin and the like as links, which the other packages go through.
    dpkg-deb --fsys-tarfile "$dir"/cache/archives/base-files_*.deb | tar -x -C "$root" --no-same-owner
    for package in "$dir"/cache/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$package" | tar -x -C "$root" --no-same-owner --keep-directory-symlink \
            --exclude=./usr/share/doc/* --exclude=./usr/share/man/* --exclude=./usr/share/locale/*
    done
    # What the packages' own scripts would do.
    mkdir -p "$root"/{proc,sys,dev,tmp,root,coll-dma}
    printf 'root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n' >"$root/etc/passwd"
    printf 'root:x:0:\nnogroup:x:65534:\n' >"$root/etc/group"
    printf '127.0.0.1 localhost %s\n' "$(hostname)" >"$root/etc/hosts"
    for name in mpicc mpirun mpiexec; do
        ln -sf $name.openmpi "$root/usr/bin/$name"
    done
    ln -sf gawk "$root/usr/bin/awk"
    "${namespaces[@]}" chroot "$root" /sbin/ldconfig
}

# What has no right to be half there is made beside its place and moved into it.
make_root() {
    local series=$1 at=$top/build-series-$1 release stamp found
    release=$(release_of "$series")
    "${namespaces[@]}" true 2>/dev/null || skip 'this machine gives no right to make namespaces'
    if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
        skip "there is no apt here to fetch $release with"
    fi
    stamp=$(cksum <"$top/tools/series.sh")
    [ "$stamp" != "$(cat "$at/stamp" 2>/dev/null)" ] || return 0
    rm -rf "$at"
    mkdir -p "$at"
    fetch "$release" "$at/apt"
    unpack "$at/apt" "$at/root.new"
    found=$("$0" enter-new "$series" ompi_info --version | sed -n 's/^Open MPI v//p')
    case $found in
    "$series".*) ;;
    *) skip "$release has Open MPI ${found:-not at all}, not $series" ;;
    esac
    mv "$at/root.new" "$at/root"
    rm -rf "$at/apt/cache" "$at/apt/state"
    echo "$stamp" >"$at/stamp"
    echo "Open MPI $found from $release"
}

# The tarball keeps the files' times, by which make sees what has changed.
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
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
    mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
    mount --rbind -o ro /sys "$root/sys"
    cd "$root"
    # Open MPI tries every interface otherwise, and says so when a machine has none that it likes.
    exec chroot . env -i DMA_SERIES_ROOT=1 OMPI_MCA_btl_tcp_if_include=lo PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM=dumb \
        bash -c 'cd /coll-dma && exec "$@"' - "$@"
}

main() {
    if [ $# -lt 2 ] || { [ "$1" != inside ] && ! release_of "$2" >/dev/null; }; then
        usage
    fi
    case $1 in
    root) make_root "$2" ;;
    tree) unpack_tree "$2" "$3" ;;
    # In our place, so that who ends us ends it all.
    enter) exec "${namespaces[@]}" "$top/tools/series.sh" inside "$top/build-series-$2/root" "${@:3}" ;;
    enter-new) exec "${namespaces[@]}" "$top/tools/series.sh" inside "$top/build-series-$2/root.new" "${@:3}" ;;
    inside) inside "${@:2}" ;;
    *) usage ;;
    esac
}
# On one line, so that the script may be edited while it runs.
main "$@"; exit
