#!/bin/bash
# Part of the suite docs. new_user.sh CONFIGURE-OPTION...: what docs/user/installing.md says for a user who is not root, in a
# new copy of this tree, with nothing of the build in the environment. $scratch and $HOME are folders of the test.
# shellcheck disable=SC1091
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd -P)
copy=${scratch:?}/copy
rm -rf "$copy" "$HOME/coll-dma" "$HOME/.openmpi"
mkdir "$copy"
(cd "$root" && git ls-files -z | xargs -0 cp --parents -t "$copy" 2>/dev/null) || true
unset OMPI_MCA_mca_base_component_path LD_LIBRARY_PATH
cd "$copy"
./autogen.sh
mkdir -p build && cd build
../configure "$@"
make -j2
make install
mpicc ../examples/allgather_check.c -o program
[[ $* = *mca-dir* ]] || . "$HOME/coll-dma/share/coll-dma/env.sh"
mpirun -n 4 --mca coll dma ./program
