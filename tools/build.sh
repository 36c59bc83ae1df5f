# Read by ./check and ./demo, after `root` is set: packages, configure and make, without any question.
# shellcheck shell=bash
: "${root:?}"

# Debian has tc and nft in folders that are not in every user's PATH.
PATH=$PATH:/usr/sbin:/sbin

say() {
    printf '%s\n' "$*"
}

die() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# has_header NAME: whether the compiler finds it, with everything that it includes
has_header() {
    printf '#if !__has_include(<%s>)\n#error\n#endif\n' "$1" | gcc -E -x c - >/dev/null 2>&1
}

# missing_packages PART...: the missing Debian packages for `build`, `unit` (unit tests), `probes`, `memcheck`, `scripts` (of tests),
# `plots`, `hosts` (the testbed), `node` (the emulated GPU node), `languages` (of examples), `recipes` (the readers of
# recipes for packages), `packages` (the builders of packages), `slurm`, `compilers` (clang beside GCC), `fuzzers`
# (libFuzzer) and `aarch64` (to build for it). Looks for the program or header, not for the package: an Open MPI that was
# built by hand will do.
missing_packages() {
    local missing=() part
    for part; do
        "missing_for_$part"
    done
    printf '%s\n' "${missing[@]}"
}

# These add to `missing`.
missing_for_build() {
    local mpicc
    { command -v gcc && echo 'int main(void){return 0;}' | gcc -x c -o /dev/null -; } >/dev/null 2>&1 ||
        missing+=(gcc libc6-dev)
    command -v make >/dev/null || missing+=(make)
    command -v autoreconf >/dev/null || missing+=(autoconf)
    command -v automake >/dev/null || missing+=(automake)
    command -v libtoolize >/dev/null || missing+=(libtool)
    command -v pkg-config >/dev/null || missing+=(pkg-config)
    mpicc=$(command -v "${MPICC:-mpicc.openmpi}" || command -v mpicc || true)
    { [ -n "$mpicc" ] && "$mpicc" -showme:compile; } >/dev/null 2>&1 || missing+=(libopenmpi-dev)
    { command -v ompi_info && command -v mpirun; } >/dev/null || missing+=(openmpi-bin)
}

missing_for_unit() {
    pkg-config --exists check 2>/dev/null || missing+=(check)
    # Between nodes. A build without UCX serves single nodes only.
    pkg-config --exists ucx 2>/dev/null || missing+=(libucx-dev)
}

# Static probes. A build without this header has none.
missing_for_probes() {
    has_header sys/sdt.h || missing+=(systemtap-sdt-dev)
}

missing_for_memcheck() {
    command -v valgrind >/dev/null || missing+=(valgrind)
}

missing_for_scripts() {
    command -v python3 >/dev/null || missing+=(python3)
}

missing_for_plots() {
    command -v gnuplot >/dev/null || missing+=(gnuplot-nox)
}

missing_for_hosts() {
    { command -v ip && command -v tc && command -v bridge && command -v ss; } >/dev/null || missing+=(iproute2)
    command -v nft >/dev/null || missing+=(nftables)
}

missing_for_languages() {
    command -v gfortran >/dev/null || missing+=(gfortran)
    /usr/bin/python3 -c 'import mpi4py, numpy' 2>/dev/null || missing+=(python3-mpi4py python3-numpy)
}

missing_for_recipes() {
    command -v rpmbuild >/dev/null || missing+=(rpm)
    find /usr/lib /usr/libexec /usr/share -name modulecmd.tcl -print -quit 2>/dev/null | grep . >/dev/null || missing+=(environment-modules)
}

missing_for_packages() {
    command -v dh >/dev/null || missing+=(debhelper)
    command -v lintian >/dev/null || missing+=(lintian)
    command -v dpkg-buildpackage >/dev/null || missing+=(dpkg-dev fakeroot)
}

missing_for_slurm() {
    command -v slurmctld >/dev/null || missing+=(slurmctld)
    command -v slurmd >/dev/null || missing+=(slurmd)
    command -v sbatch >/dev/null || missing+=(slurm-client)
    command -v munged >/dev/null || missing+=(munge)
}

missing_for_compilers() {
    command -v clang >/dev/null || missing+=(clang)
    command -v ld.lld >/dev/null || missing+=(lld)
    command -v llvm-ar >/dev/null || missing+=(llvm)
}

missing_for_fuzzers() {
    command -v clang >/dev/null || missing+=(clang)
    find /usr/lib/llvm-*/lib/clang -name 'libclang_rt.fuzzer*' 2>/dev/null | grep . >/dev/null || missing+=(libclang-rt-dev)
}

missing_for_aarch64() {
    command -v aarch64-linux-gnu-gcc >/dev/null || missing+=(gcc-aarch64-linux-gnu)
    command -v qemu-aarch64-static >/dev/null || missing+=(qemu-user-static)
}

# The emulated GPU node needs the real runtimes.
missing_for_node() {
    [ "$(uname -m)" = x86_64 ] || return 0
    # Where there is one: in ROCm from 6.3 on it is a part of ROCr.
    has_header hsakmt.h || has_header hsakmt/hsakmt.h || [ -n "${DMA_SERIES_ROOT:-}" ] || missing+=(libhsakmt-dev)
    has_header hsa/hsa.h || missing+=(libhsa-runtime-dev)
    has_header hip/hip_runtime_api.h || missing+=(libamdhip64-dev)
    has_header amd_comgr.h || has_header amd_comgr/amd_comgr.h || missing+=(libamd-comgr-dev)
    command -v rocminfo >/dev/null || missing+=(rocminfo)
}

# A user who is not root installs through sudo, if that asks nothing.
as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo -n)
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get)

apt_install() {
    local log
    log=$(mktemp)
    # Package lists may be missing or old. They are fetched only in that case.
    if ! "$@" </dev/null >"$log" 2>&1; then
        if ! { "${apt[@]}" update -q && "$@"; } </dev/null >"$log" 2>&1; then
            tail -n 20 "$log" >&2
            rm -f "$log"
            return 1
        fi
    fi
    rm -f "$log"
}

# install_packages PART...: installs everything that these parts need and that is missing, and first prints how. With
# `no_install=1` it only prints it, and ends the script.
install_packages() {
    local packages install
    mapfile -t packages < <(missing_packages "$@")
    [ -n "${packages[0]:-}" ] || return 0
    install=("${apt[@]}" install -y -q --no-install-recommends "${packages[@]}")
    if ! command -v apt-get >/dev/null; then
        die "missing; please install, by their Debian names: ${packages[*]}"
    fi
    if [ "${no_install:-0}" = 1 ] || ! "${as_root[@]}" true 2>/dev/null; then
        die "missing; as root, run: apt-get install --no-install-recommends ${packages[*]}"
    fi
    say "installing what is missing (--no-install: only print it):"
    say "  ${install[*]}"
    apt_install "${install[@]}" || die "apt-get could not install ${packages[*]}"
}

# configure_build DIR OPTION...: makes DIR a build of this tree with these options, unless it is one already. Without
# options, any build of this tree will do.
configure_build() {
    local build=$root/$1 stamp found=
    shift
    stamp="$root $*"
    [ ! -e "$build/.configured" ] || found=$(cat "$build/.configured")
    if [ $# = 0 ] && [ "${found%% *}" = "$root" ]; then
        stamp=$found
    fi
    if [ ! -e "$root/configure" ] || [ ! -e "$root/Makefile.in" ]; then
        (cd "$root" && ./autogen.sh)
    fi
    # The build of a tree that was copied or moved has the old paths in it.
    if [ ! -e "$build/Makefile" ] || [ "$stamp" != "$found" ]; then
        mkdir -p "$build"
        find "$build" -mindepth 1 -maxdepth 1 ! -name log -exec rm -rf {} +
        # libtool is a script that each call of the compiler goes through. dash needs half the time for it that bash needs.
        (cd "$build" && CONFIG_SHELL=$(command -v dash || command -v bash) ../configure "$@")
        printf '%s\n' "$stamp" >"$build/.configured"
    fi
}

# make_in DIR TARGET...
make_in() {
    local build=$root/$1
    shift
    make -C "$build" --no-print-directory -j"$(nproc)" "$@"
}

# The environment in which tests and benchmarks run: any number of ranks on any number of cores, also as root.
mpi_environment() {
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
    # The same for later series, which print a warning about variables with the names of another series.
    case $(mpirun --version 2>/dev/null) in
    *'Open MPI) 5.'*) export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe PRTE_MCA_hwloc_default_binding_policy=none ;;
    *'Open MPI) 4.'*) ;;
    *) export PRTE_MCA_mapby=:oversubscribe PRTE_MCA_bindto=none ;;
    esac
    # Ranks that share a core must yield it while they wait.
    export OMPI_MCA_mpi_yield_when_idle=1
    # For tests that choose pml ucx: machines without a network adapter too.
    export OMPI_MCA_pml_ucx_tls=any OMPI_MCA_pml_ucx_devices=any
}
