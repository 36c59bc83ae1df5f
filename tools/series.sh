#!/bin/bash
# series.sh root SERIES [full] | tree SERIES TARBALL | enter SERIES CMD...: another series of Open MPI than this machine's, in
# a root of its own.
#
# `root` makes build-series-SERIES/root from the packages of the Debian release that carries the series. It uses this
# machine's apt, the mirror that apt is configured with and its keys; packages are unpacked, not installed: nothing of
# them runs outside of the root, and this machine's own packages stay as they are. `full` adds what only some suites need.
# `tree` unpacks a release tarball in there, as /coll-dma; what was built from the one before stays.
# `enter` runs CMD in /coll-dma there, in namespaces of its own: with the last process every mount is gone, whatever happens, and
# with this one every process. Both need root, or a kernel that lets users make namespaces.
# Exit status 77 and a line that says why: the series cannot be had here. `enter` else has that of CMD.
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)

# Where each series is, and what a build and its tests need.
packages='gcc libc6-dev make pkg-config openmpi-bin libopenmpi-dev libpmix-dev libucx-dev check
    bash coreutils diffutils findutils gawk grep gzip hostname login mount passwd procps python3 sed tar util-linux'
# What these ask for and neither a build nor a test uses: half of all the time. Other packages load the libraries where they
# find them. The last are those of ROCm, whose place is taken by the one of the emulated node.
unwanted='adduser|apt|auto.*|debconf|dpkg|fonts-.*|m4|mawk|.*gfortran.*|libapt-.*|libasan.*|libclang.*|libgprofng.*|libhwasan.*|libjs-.*
    |libllvm.*|liblsan.*|libperl.*|libsystemd-shared|libtsan.*|libubsan.*|libz3.*|perl.*|sphinx-.*|sqv|systemd
    |libamd.*|libhiprtc.*|libhsa.*'
# With `full`: what the further suites need, and the ROCm that the emulated node stands below, from the release that has
# it. Names it finds there; what they need besides is in the other release, too.
more='valgrind iproute2 nftables'
rocm_release=bookworm
rocm='libamd-comgr2 libamd-comgr-dev libamdhip64-5 libamdhip64-dev libhiprtc-builtins5 libhsa-runtime64-1 libhsa-runtime-dev
    libhsakmt1 libhsakmt-dev libicu72 libllvm15 libxml2 libz3-4 rocminfo'
release_of() {
    case $1 in
    5.0) echo trixie ;;
    6.0) echo forky ;;
    *) return 1 ;;
    esac
}

usage() {
    echo 'usage: series.sh root 5.0|6.0 [full], series.sh tree 5.0|6.0 TARBALL, or series.sh enter 5.0|6.0 CMD...' >&2
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

# lists RELEASE DIR: what the release has
lists() {
    local release=$1 dir=$2 uri keys=/usr/share/keyrings/debian-archive-keyring.gpg
    uri=$(mirror)
    [ -n "$uri" ] || skip "apt has no Debian mirror here, which $release would come from"
    mkdir -p "$dir/state/lists/partial" "$dir/cache/archives/partial" "$dir/new"
    : >"$dir/status"
    [ -e $keys ] && keys="[signed-by=$keys] " || keys=
    echo "deb $keys$uri $release main" >"$dir/sources.list"
    if ! apt_for "$dir" update >"$dir/log" 2>&1 || grep -q '^[WE]: Failed' "$dir/log"; then
        skip "apt's mirror does not serve $release; $dir/log"
    fi
}

# needed DIR PACKAGE...: with all they depend on, but for what is unwanted
needed() {
    local dir=$1
    shift
    apt_for "$dir" install -y --print-uris "$@" 2>>"$dir/log" |
        sed -nE "s/^'[^']*' ([^_]+)_.*/\1/p" | grep -vxE "$(tr -d ' \n' <<<"$unwanted")"
}

# fetch DIR PACKAGE...: as files in DIR/new
fetch() {
    local dir=$1
    shift
    (cd "$dir/new" && apt_for "$dir" download "$@") >>"$dir/log" 2>&1 ||
        skip "the packages cannot be fetched; $dir/log"
}

# unpack_one FILE ROOT
unpack_one() {
    dpkg-deb --fsys-tarfile "$1" | tar -x -C "$2" --no-same-owner --keep-directory-symlink --exclude=./usr/share/doc/* \
        --exclude=./usr/share/info/* --exclude=./usr/share/locale/* --exclude=./usr/share/man/* --exclude=*/lto1
}

# unpack DIR ROOT: the packages in DIR/new as they would be once installed, as far as a build and its tests go
unpack() {
    local dir=$1 root=$2
    export -f unpack_one
    # shellcheck disable=SC2016
    printf '%s\n' "$dir"/new/*.deb | ROOT=$root xargs -P "$(nproc)" -I{} bash -euo pipefail -c 'unpack_one "$1" "$ROOT"' - {}
    rm -f "$dir"/new/*.deb
    "${namespaces[@]}" chroot "$root" /sbin/ldconfig
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

# make_full SERIES: the rest, into the root that is there
make_full() {
    local series=$1 at=$top/build-series-$1 wanted release
    [ ! -e "$at/full" ] || return 0
    release=$(release_of "$series")
    rm -rf "$at/apt" "$at/apt-rocm"
    lists "$release" "$at/apt"
    # shellcheck disable=SC2086
    mapfile -t wanted < <(needed "$at/apt" $more)
    fetch "$at/apt" "${wanted[@]}"
    unpack "$at/apt" "$at/root"
    lists $rocm_release "$at/apt-rocm"
    # shellcheck disable=SC2086
    fetch "$at/apt-rocm" $rocm
    unpack "$at/apt-rocm" "$at/root"
    # What was configured without all this.
    rm -rf "$at/root/coll-dma/build"
    touch "$at/full"
}

# What has no right to be half there is made beside its place and moved into it.
make_root() {
    local series=$1 at=$top/build-series-$1 release stamp found wanted extra
    release=$(release_of "$series")
    "${namespaces[@]}" true 2>/dev/null || skip 'this machine gives no right to make namespaces'
    if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
        skip "there is no apt here to fetch $release with"
    fi
    stamp=$(cksum <"$top/tools/series.sh")
    [ "$stamp" != "$(cat "$at/stamp" 2>/dev/null)" ] || return 0
    rm -rf "$at"
    mkdir -p "$at/root.new"
    lists "$release" "$at/apt"
    extra=()
    [ "$series" != 6.0 ] || extra=(libucc-dev)
    # shellcheck disable=SC2086
    mapfile -t wanted < <(needed "$at/apt" $packages "${extra[@]}" '?essential')
    fetch "$at/apt" "${wanted[@]}"
    # With /bin and the like as links, which the other packages go through.
    unpack_one "$at"/apt/new/base-files_*.deb "$at/root.new"
    finish_root "$at/root.new"
    unpack "$at/apt" "$at/root.new"
    found=$("$0" enter-new "$series" ompi_info --version | sed -n 's/^Open MPI v//p')
    case $found in
    "$series".*) ;;
    *) skip "$release has Open MPI ${found:-not at all}, not $series" ;;
    esac
    mv "$at/root.new" "$at/root"
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
    # The root of the mount namespace, not only of a process: those inside make namespaces of their own, and enter them.
    mount --rbind "$root" "$root"
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
    mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
    mount --rbind -o ro /sys "$root/sys"
    cd "$root"
    pivot_root . .
    umount --lazy .
    # Open MPI tries every interface otherwise, and says so when a machine has none that it likes. HIP 5.2 wants an executable
    # stack, which a newer libc gives to nobody that is loaded late, unless told to.
    exec env -i DMA_SERIES_ROOT=1 OMPI_MCA_btl_tcp_if_include=lo GLIBC_TUNABLES=glibc.rtld.execstack=2 PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM=dumb \
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
        ;;
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
