#!/bin/bash
# dist.sh BUILD: the distribution is complete. It is made, unpacked read-only, configured out of tree with a prefix, built,
# installed, uninstalled and cleaned, and nothing is left over. The tests that it would run are other suites here, and so is the
# build with optimization, which takes twice the time.
set -euo pipefail
# As in configure_build of tools/build.sh.
CONFIG_SHELL=$(command -v dash || command -v bash)
export CONFIG_SHELL
make -C "$1" -j"$(nproc)" --no-print-directory distcheck TESTS= check_PROGRAMS= GZIP_ENV=-1 \
    AM_DISTCHECK_CONFIGURE_FLAGS='--enable-werror --cache-file=/dev/null CFLAGS=-O0'
