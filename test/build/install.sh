#!/bin/bash
# install.sh BUILD: where `make install` puts each file, what it prints, and that Open MPI finds the component there.
set -euo pipefail
build=$(cd "$1" && pwd)
root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=test/lib.sh
. "$root/test/lib.sh"
# shellcheck source=/dev/null
. "$build/config/build.env"
work=$build/install-test
rm -rf "$work"
mkdir "$work"
version=$(sed -n 's/^AC_INIT(\[coll-dma\], \[\(.*\)\])$/\1/p' "$root/configure.ac")

files_under() {
    (cd "$1" && find . -type f | sort | tr '\n' ' ')
}

# The build is configured for Open MPI's own folders; DESTDIR puts a copy of them elsewhere.
own_folders() {
    make -s -C "$build" install DESTDIR="$work/own" >"$work/own.log" 2>&1 || { cat "$work/own.log"; return 1; }
    [ -e "$work/own${dma_ompi_component_dir:?}/mca_coll_dma.so" ] &&
        grep -q 'mpirun --mca coll dma PROGRAM' "$work/own.log" && ! grep -q env.sh "$work/own.log"
}

uninstall() {
    make -s -C "$build" uninstall DESTDIR="$work/own" && [ -z "$(files_under "$work/own")" ] &&
        ! find "$work/own" -name coll-dma | grep .
}

# A folder of the system in front of PATH would hide the Python of a virtual environment.
no_system_folders() {
    local file
    make -s -C "$build" install DESTDIR="$work/system" prefix=/usr libdir=/usr/lib/x86_64-linux-gnu >"$work/system.log" 2>&1 ||
        { cat "$work/system.log"; return 1; }
    for file in "$work/system/usr/share/coll-dma/env.sh" "$work/system/usr/share/modulefiles/coll-dma/$version"; do
        cat "$file"
        grep -q component_path "$file" && ! grep -E '[ _](PATH|LD_LIBRARY_PATH|PKG_CONFIG_PATH)[ =]' "$file" || return 1
    done
}

# The same build, with another destination for make.
elsewhere() {
    make -s -C "$build" install componentdir="$work/mca" helpdir="$work/mca" prefix="$work/prefix" >"$work/mca.log" 2>&1 ||
        { cat "$work/mca.log"; return 1; }
    [ "$(id -u)" != 0 ] || grep 'find libmpix_dma .*: ldconfig$' "$work/mca.log" || return 1
    files_under "$work/mca"
    [ "$(files_under "$work/mca")" = './help-coll-dma.txt ./mca_coll_dma.so ' ]
}

# The commands, and what they start, are below the prefix.
commands_work() {
    local name installed=''
    for name in accept bench info state trace; do
        installed+="./bin/coll_dma_$name "
        says "^usage: (mpirun .*)?coll_dma_$name " "$work/prefix/bin/coll_dma_$name" --help || return 1
    done
    installed+='./include/mpix_dma.h '
    installed+='./lib/libmpix_dma.so.0.0.0 ./lib/pkgconfig/mpix_dma.pc '
    installed+='./libexec/coll-dma/coll_dma_accept_worker '
    installed+='./share/coll-dma/env.sh '
    for name in accept bench info state trace; do
        installed+="./share/man/man1/coll_dma_$name.1 "
    done
    installed+="./share/man/man3/MPIX_Pallgather_init.3 ./share/man/man3/MPIX_Queue_init.3 "
    installed+="./share/modulefiles/coll-dma/$version "
    files_under "$work/prefix"
    [ "$(files_under "$work/prefix")" = "$installed" ]
}

# A program is built with what pkg-config prints, and finds the library with the settings of the file for shells.
program_builds() {
    printf '#include <mpix_dma.h>\nint main(void) { return MPIX_Queue_wait(MPIX_QUEUE_NULL) != MPI_ERR_ARG; }\n' >"$work/program.c"
    # shellcheck disable=SC2016
    PATH=${dma_ompi_bindir:?}:$PATH sh -euc '. "$0"
        mpicc "$1.c" -o "$1" $(pkg-config --cflags --libs mpix_dma)
        [ "$(pkg-config --modversion mpix_dma)" = "$2" ]
        "$1"' "$work/prefix/share/coll-dma/env.sh" "$work/program" "$version"
}

# Manual pages without a fault, if there is a checker. It does not know the pages that ours refer to.
pages() {
    local faults
    command -v mandoc >/dev/null || { echo 'not checked: mandoc is not installed' && return 0; }
    faults=$(mandoc -T lint "$root"/tools/*/*.1 "$root"/mpix/*.3 | grep -v 'referenced manual not found\|outdated mandoc.db')
    echo "$faults"
    [ -z "$faults" ]
}

# One line that make install prints lets Open MPI find it: tried as a user who may write only below the prefix, under mpirun.
# Folders of root may be closed to users.
as_told() {
    local home line user=()
    home=$(mktemp -d)
    cp "$build/examples/.libs/allgather_check" "$home/" 2>/dev/null || cp "$build/examples/allgather_check" "$home/"
    make -s -C "$build" install componentdir="$home/lib/openmpi" helpdir="$home/share/openmpi" prefix="$home" >"$home/log" 2>&1 || {
        cat "$home/log"
        return 1
    }
    if [ "$(id -u)" = 0 ]; then
        chown -R nobody "$home"
        user=(setpriv --reuid=nobody --regid=nogroup --clear-groups)
    fi
    line=$(sed -n 's/^ *\(\. .*env\.sh\)$/\1/p' "$home/log")
    cat "$home/log"
    # shellcheck disable=SC2016
    "${user[@]}" env -i HOME="$home" TMPDIR="$home" PATH="$PATH" LINE="$line" bash -euo pipefail -c 'cd; eval "$LINE"
        command -v coll_dma_accept
        mpirun --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 --mca coll dma --mca coll_dma_verbose 1 -n 2 \
            ./allgather_check' >"$home/run" 2>&1
    local status=$?
    cat "$home/run"
    [ $status = 0 ] && [ -n "$line" ] && grep -q "^$home/bin/coll_dma_accept" "$home/run" && grep -q '2 ranks, ready' "$home/run" || status=1
    rm -rf "$home"
    return $status
}

# The paths that the file for shells adds: those of Open MPI, and from 5.0 on those of PMIx. What was set before stays.
keeps_paths() {
    local paths
    paths=$(OMPI_MCA_mca_base_component_path=/before PMIX_MCA_mca_base_component_path=/before sh -euc \
        '. "$0"; echo "$OMPI_MCA_mca_base_component_path $PMIX_MCA_mca_base_component_path"' "$work/prefix/share/coll-dma/env.sh")
    echo "$paths"
    [ "$paths" = "$work/mca${dma_ompi_component_rest:-}:/before ${dma_pmix_component_dir:+$dma_pmix_component_dir:}/before" ] &&
        ! grep '%[A-Z]*%' "$work/prefix/share/coll-dma/env.sh" "$work/prefix/share/modulefiles/coll-dma/$version"
}

# The modulefile does the same, and undoes it, if environment modules are installed.
module_works() {
    local tool text
    tool=$(find /usr/lib /usr/libexec /usr/share -name modulecmd.tcl -print -quit 2>/dev/null)
    [ -n "$tool" ] || { echo 'not tried: there is no modulecmd.tcl'; return; }
    # shellcheck disable=SC2016
    text=$(env -u OMPI_MCA_mca_base_component_path MODULEPATH="$work/prefix/share/modulefiles" \
        bash -c 'eval "$("$0" bash load coll-dma)"; echo "$OMPI_MCA_mca_base_component_path $LOADEDMODULES"
            eval "$("$0" bash unload coll-dma)"; echo "${OMPI_MCA_mca_base_component_path:-unset} ${LOADEDMODULES:-none}"' "$tool" 2>&1)
    echo "$text"
    [ "$text" = "$work/mca${dma_ompi_component_rest:-} coll-dma/$version
unset none" ]
}

# The folder of a user in which Open MPI looks by itself needs nothing in the environment, unless mpirun changes the path.
own_folder_of_user() {
    local home=$work/home
    make -s -C "$build" install componentdir="$home/.openmpi/components" helpdir="$home/.openmpi/components" prefix="$home" \
        HOME="$home" >"$work/home.log" 2>&1 || return 1
    cat "$work/home.log"
    if [ "${dma_ompi_path_kept:?}" = yes ]; then
        grep -q '^Open MPI finds it there' "$work/home.log" && ! grep -q env.sh "$work/home.log" &&
            env -u OMPI_MCA_mca_base_component_path HOME="$home" ompi_info --parsable | grep '^mca:coll:dma:version:'
    else
        grep -q 'env.sh$' "$work/home.log"
    fi
}

with_build() {
    "$root/with-build" --build "$build" ompi_info --parsable | grep '^mca:coll:dma:version:'
}

no_build() {
    refuses 'run ./check or ./demo first' "$root/with-build" --build "$work" true
}

# What Open MPI and libmpix_dma look for.
exported() {
    local symbols
    symbols=$(nm -D --defined-only "$build/mca/mca_coll_dma.so" | awk '{ print $NF }' | sort)
    echo "$symbols"
    [ "$symbols" = $'mca_coll_dma_component\nmca_coll_dma_in_stream' ]
}

# In another series the loader refuses the component instead of crashing.
linked() {
    readelf -d "$build/mca/mca_coll_dma.so"
    readelf -d "$build/mca/mca_coll_dma.so" | grep 'NEEDED.*\[libmpi\.so' >/dev/null &&
        readelf -d "$build/mca/mca_coll_dma.so" | grep 'NEEDED.*\[libopen-pal\.so' >/dev/null
}

ok "the component goes into Open MPI's own directory" own_folders
ok 'make uninstall leaves nothing' uninstall
ok 'the file for shells puts no folder of the system first' no_system_folders
ok 'a directory of its own gets the component and its help, nothing else' elsewhere
ok 'the commands go below the prefix' commands_work
ok 'their manual pages are right' pages
ok 'a program with queues is built and runs' program_builds
ok 'a user without root runs it as make install says' as_told
ok 'the file for shells keeps other paths' keeps_paths
ok 'the modulefile loads and unloads' module_works
ok 'in ~/.openmpi/components nothing is to be set' own_folder_of_user
ok 'with-build shows Open MPI the component just built' with_build
ok 'with-build says what to do when there is no build' no_build
ok 'the component exports two symbols' exported
ok 'the component is tied to its series of Open MPI' linked
rm -rf "$work"
finish
