#!/bin/bash
# packages.sh BUILD [full]: the recipes for packages have the same version, and their own tools understand them. `full` also
# builds the packages of Debian and of RPM from the release's tarball, runs lintian on those of Debian, and runs their test
# as if they were installed.
set -uo pipefail
build=$(cd "$1" && pwd)
how=${2:-parse}
root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=test/lib.sh
. "$root/test/lib.sh"
work=$build/packages-test
rm -rf "$work"
mkdir "$work"
cd "$root" || exit 1
version=$(sed -n 's/^AC_INIT(\[coll-dma\], \[\(.*\)\])$/\1/p' configure.ac)

# one_version COMMAND...: it prints this version, and nothing else
one_version() {
    local found
    found=$("$@")
    echo "found ${found:-nothing}, not $version"
    [ "$found" = "$version" ]
}

ok 'NEWS begins with this version' one_version sed -n '1s/^coll\/dma \([0-9.]*\).*/\1/p' NEWS
ok 'debian/changelog' one_version sed -n '1s/^coll-dma (\(.*\)-[0-9]*) .*/\1/p' debian/changelog
ok 'the spec of RPM' one_version sed -n 's/^Version: *//p' contrib/coll-dma.spec
ok 'the recipe of Spack' one_version sed -n 's/^    version("\(.*\)")$/\1/p' contrib/spack/package.py
ok 'the recipe of EasyBuild' one_version sed -n "s/^version = '\(.*\)'$/\1/p" contrib/easybuild/*.eb
ok 'the name of the recipe of EasyBuild' test -e "contrib/easybuild/coll-dma-$version-gompi-2023b.eb"

if command -v python3 >/dev/null; then
    ok 'Python compiles the recipe of Spack' env PYTHONPYCACHEPREFIX="$work" python3 -m py_compile contrib/spack/package.py
    ok 'Python runs the recipe of EasyBuild' python3 -c 'import sys
recipe = {}
exec(open(sys.argv[1]).read(), recipe)
needed = {"easyblock", "name", "version", "homepage", "description", "toolchain", "sources", "moduleclass"}
missing = needed - recipe.keys()
sys.exit(str(missing) if missing else 0)' contrib/easybuild/*.eb
fi
if command -v rpmspec >/dev/null; then
    ok 'rpmspec reads the spec' says "^coll-dma-$version-1" rpmspec -q contrib/coll-dma.spec
else
    echo 'not tried: the spec of RPM, because there is no rpmspec'
fi

# The image installs what the README says, and copies files that exist.
image_as_readme() {
    local wanted package
    wanted=$(sed -n 's/^apt-get install \(gcc .*\)$/\1/p' README.md)
    echo "$wanted"
    [ -n "$wanted" ] || return 1
    for package in $wanted; do
        grep -qw -e "$package" contrib/Containerfile || { echo "no $package"; return 1; }
    done
}
ok 'the image installs what the README says' image_as_readme

# Every package has the static probes or none, whatever the machine has that builds it.
probes_decided() {
    local recipe
    for recipe in contrib/coll-dma.spec contrib/spack/package.py contrib/easybuild/*.eb contrib/Containerfile debian/rules; do
        grep -Eq -e '--with(out)?-sdt|with_or_without\("sdt"\)' "$recipe" || { echo "$recipe: --with-sdt or --without-sdt"; return 1; }
    done
    grep -q '^Build-Depends:.* systemtap-sdt-dev,' debian/control && grep -qw systemtap-sdt-dev contrib/Containerfile &&
        grep -q '^BuildRequires:.* systemtap-sdt-devel' contrib/coll-dma.spec
}
ok 'static probes do not depend on the machine that builds' probes_decided

# What follows takes minutes.
if [ "$how" != full ]; then
    rm -rf "$work"
    finish
    exit
fi
make -s -C "$build" dist >"$work/dist.log" 2>&1 || cat "$work/dist.log"
tarball=$build/coll-dma-$version.tar.gz

debian_builds() {
    mkdir "$work/deb" && cd "$work/deb" && cp "$tarball" "coll-dma_$version.orig.tar.gz" && tar xf "$tarball" &&
        cd "coll-dma-$version" && DEB_BUILD_OPTIONS="nocheck parallel=$(nproc)" dpkg-buildpackage -us -uc
}

# In mount namespaces of our own, the files of the package are beside those of the machine. Nothing is installed.
debian_runs() {
    dpkg-deb -x "$work"/deb/openmpi-coll-dma_*.deb "$work/installed"
    # shellcheck disable=SC2016
    env -u OMPI_MCA_mca_base_component_path -u OPAL_PKGDATADIR unshare --mount --propagation private bash -euc '
        mount -t overlay overlay -o "lowerdir=$0/installed/usr:/usr" /usr
        cd "$1"
        command -v coll_dma_accept
        exec debian/tests/mpirun' "$work" "$root"
}

rpm_builds() {
    rpmbuild --define "_topdir $work/rpm" --nodeps -tb "$tarball" && find "$work/rpm" -name "coll-dma-$version*.rpm" | grep .
}

if command -v dh >/dev/null && command -v dpkg-buildpackage >/dev/null; then
    ok 'dpkg-buildpackage' debian_builds
    ok 'lintian' lintian --allow-root --fail-on warning,error "$work"/deb/*.changes
    if [ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null; then
        ok 'its test passes with the package' debian_runs
    fi
else
    echo 'not tried: the package of Debian, because there is no debhelper'
fi
if command -v rpmbuild >/dev/null; then
    ok 'rpmbuild' rpm_builds
else
    echo 'not tried: the package of RPM, because there is no rpmbuild'
fi
rm -rf "$work"
finish
