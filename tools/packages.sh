# Read by the scripts that make a root from the packages of a Debian release. This machine's apt, the mirror that apt is
# configured with and its keys fetch them. They are unpacked, not installed: nothing of them runs, and this machine's own
# packages do not change. `arch`, if it is set, is the architecture; otherwise it is this machine's.
# shellcheck shell=bash

# Packages that others depend on and that neither a build nor a test uses: half of all the time. Others load their libraries
# only where they find them.
unwanted='adduser|apt|auto.*|debconf|dpkg|fonts-.*|m4|mawk|.*gfortran.*|libapt-.*|libasan.*|libclang.*|libgprofng.*|libhwasan.*|libjs-.*
    |liblsan.*|libperl.*|libsystemd-shared|libtsan.*|libubsan.*|perl.*|sphinx-.*|sqv|systemd'
# ROCm and its compiler, which Open MPI and UCX load where they find them. A root with GPUs asks for them itself.
unwanted_rocm='libamd.*|libhiprtc.*|libhsa.*|libllvm.*|libz3.*'

skip() {
    echo "$*"
    exit 77
}

# The mirror that apt gets Debian from.
mirror() {
    local uri
    # apt's own placeholder
    # shellcheck disable=SC2016
    uri=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' 2>/dev/null | head -n 1)
    echo "${uri%/}"
}

# apt_for DIR ARGS...: this machine's apt, with lists, cache and an (empty) database of its own in DIR
apt_for() {
    local dir=$1
    shift
    apt-get -q ${arch:+-o APT::Architecture="$arch" -o APT::Architectures="$arch"} -o Dir::State="$dir/state" -o Dir::State::status="$dir/status" -o Dir::Cache="$dir/cache" \
        -o Dir::Etc::sourcelist="$dir/sources.list" -o Dir::Etc::sourceparts=- -o Dir::Etc::preferences=- \
        -o Dir::Etc::preferencesparts=- -o Debug::NoLocking=1 -o APT::Sandbox::User="$(id -un)" \
        -o Acquire::Languages=none -o Acquire::Check-Valid-Until=false -o Acquire::Retries=2 \
        -o APT::Install-Recommends=false "$@"
}

# lists RELEASE DIR: fetches the lists of the release
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

# needed DIR PACKAGE...: with everything that they depend on, except what is unwanted
needed() {
    local dir=$1
    shift
    apt_for "$dir" install -y --print-uris "$@" 2>>"$dir/log" |
        sed -nE "s/^'[^']*' ([^_]+)_.*/\1/p" | grep -vxE "$(tr -d ' \n' <<<"$unwanted${unwanted_rocm:+|$unwanted_rocm}")"
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
        --exclude=./usr/share/info/* --exclude=./usr/share/locale/* --exclude=./usr/share/man/*
}

# unpack DIR ROOT: unpacks the packages in DIR/new as they would be after installation, as far as a build and its tests need
# it
unpack() {
    local dir=$1 root=$2
    export -f unpack_one
    # shellcheck disable=SC2016
    printf '%s\n' "$dir"/new/*.deb | ROOT=$root xargs -P "$(nproc)" -I{} bash -euo pipefail -c 'unpack_one "$1" "$ROOT"' - {}
    rm -f "$dir"/new/*.deb
}
