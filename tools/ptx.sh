#!/bin/sh
# ptx.sh [--check]: makes ompi_coll_dma/gpu/cuda/eager_ptx.h, the kernel of eager starts as PTX text, of eager.cu. Needs clang 14,
# and no CUDA. The driver compiles the text for its device. With --check: is the file as this would make it?
set -eu
cd "$(dirname "$0")/.."
out=ompi_coll_dma/gpu/cuda/eager_ptx.h
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${CLANG:-clang}" -x cuda --cuda-device-only --cuda-gpu-arch=sm_70 -nocudainc -nocudalib -ffreestanding -Wno-unknown-cuda-version \
    -Wall -Wextra -Werror -O3 -S -I ompi_coll_dma -o "$work/ptx" ompi_coll_dma/gpu/cuda/eager.cu
{
    echo '/* The kernel of eager starts for CUDA, in PTX. tools/ptx.sh makes this file of eager.cu: do not edit it. */'
    echo '/* clang-format off */'
    # shellcheck disable=SC1003 # a backslash is meant
    printf '#define DMA_EAGER_PTX %s\n' '\'
    sed -e '/^[[:space:]]*\/\//d' -e '/^$/d' -e 's/[[:space:]]\{1,\}/ /g' -e 's/^ //' -e 's/ $//' -e 's/.*/    "&\\n" \\/' -e '$s/ \\$//' \
        "$work/ptx"
    echo '/* clang-format on */'
} >"$work/header"
if [ "${1:-}" = --check ]; then
    cmp "$work/header" "$out"
else
    cp "$work/header" "$out"
fi
