#!/bin/bash
# headers.sh: compares our declarations of HIP's and CUDA's calls with the vendors' headers, if these are installed, and
# checks that the comparison would notice a difference.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=test/lib.sh
. "$root/test/lib.sh"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
compile=("${CC:-cc}" -std=gnu11 -fsyntax-only -Wall -Wextra -Werror "-I$root/include" "-I$root/ompi_coll_dma")

# notices HEADER CHECK FLAGS SED: our header, changed by SED, does not compile
notices() {
    local header=$1 check=$2 change=$3
    shift 3
    mkdir -p "$scratch/gpu/$(dirname "$header")"
    sed "$change" "$root/ompi_coll_dma/gpu/$header" >"$scratch/gpu/$header"
    ! cmp -s "$scratch/gpu/$header" "$root/ompi_coll_dma/gpu/$header" || return 1
    ! "${compile[0]}" -std=gnu11 -fsyntax-only -Werror "-I$scratch" "$@" "$root/test/gpu/$check" 2>/dev/null
}

seen=0
cuda=(-I/usr/local/cuda/include)
if "${compile[@]}" "${cuda[@]}" -include cuda.h -x c /dev/null 2>/dev/null; then
    seen=1
    ok 'cuda/api.h agrees with cuda.h' "${compile[@]}" "${cuda[@]}" "$root/test/gpu/cuda_api_check.c"
    ok 'a narrower parameter would be noticed' notices cuda/api.h cuda_api_check.c \
        's/cuMemAlloc_v2, true, cuda_addr_t \*ptr, size_t/cuMemAlloc_v2, true, cuda_addr_t *ptr, unsigned/' "${cuda[@]}"
    ok 'a missing field would be noticed' notices cuda/api.h cuda_api_check.c \
        's/src_x, src_y, src_z, src_lod/src_x, src_y, src_z/' "${cuda[@]}"
fi
rocm=(-I/opt/rocm/include)
if "${compile[@]}" "${rocm[@]}" -D__HIP_PLATFORM_AMD__=1 -include hip/hip_runtime_api.h -include hsa/hsa_ext_amd.h -x c \
    /dev/null 2>/dev/null; then
    seen=1
    ok "hip/api.h agrees with HIP's headers" "${compile[@]}" "${rocm[@]}" "$root/test/gpu/hip_api_check.c"
    ok 'a missing parameter would be noticed' notices hip/api.h hip_api_check.c \
        's/hipSetDevice, true, int device/hipSetDevice, true, void/' "${rocm[@]}"
    ok 'another constant would be noticed' notices hip/api.h hip_api_check.c 's/BUFFER_ID = 7/BUFFER_ID = 6/' \
        "${rocm[@]}"
fi
if [ $seen = 0 ]; then
    echo "neither HIP's nor CUDA's headers are installed"
    exit 77
fi
finish
