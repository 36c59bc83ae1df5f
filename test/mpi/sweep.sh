#!/bin/bash
# The random sweep over 1-9 ranks, both pmls, every forced variant and unkind parameters. Runs inside ./with-build.
#
#   sweep.sh [-s SEED] [-x FACTOR] [-v] [-- MPIRUN-ARGS...]
#     -s  seed (default 1); -x FACTOR times as many cases; -v also prints what they covered
#     MPIRUN-ARGS  instead of "--mca coll dma"
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=test/mpi/common.sh
. "$here/common.sh"

seed=1 factor=1 verbose=()
while getopts s:x:v option; do
    case $option in
    s) seed=$OPTARG ;;
    x) factor=$OPTARG ;;
    v) verbose=(-v) ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || set -- --mca coll dma
base=("$@")
sweep=$(program sweep) shim=$(program libbreak_shim.so) || exit 1
shim=$(realpath "$shim")
log=$(mktemp) covers=$(mktemp)
trap 'rm -f "$log" "$covers"' EXIT

ob1='--mca pml ob1 --mca mpi_yield_when_idle 1'
ucx='--mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any --mca mpi_yield_when_idle 1'
# Everything small, so that rings, slots and chunk buffers wrap all the time.
tight='--mca coll_dma_slot_bytes 256 --mca coll_dma_chunk_bytes 4096'

# sweep_run RANKS CASES ARGS [OPTION...]: one mpirun; its cases are added to `passed` and `failed`
sweep_run() {
    local ranks=$1 cases=$(($2 * factor)) args status=0 last options=("${@:4}" "${verbose[@]}")
    read -ra args <<<"$3"
    seed=$((seed + 1))
    local limit=$((15 + cases / 4))
    launch $((limit + 10)) "$ranks" "${base[@]}" "${args[@]}" "$sweep" -s "$seed" -n "$cases" -w "$limit" \
        "${options[@]}" >"$log" 2>&1 || status=$?
    last=$(grep -E '^[0-9]+ passed, [0-9]+ failed$' "$log" | tail -n 1)
    if [ -n "$last" ]; then
        passed=$((passed + ${last%% passed*}))
        last=${last#*, }
        failed=$((failed + ${last%% failed}))
    else
        failed=$((failed + 1))
    fi
    [ $status = 0 ] || [[ "$last" != 0* ]] || failed=$((failed + 1))
    if [ $status != 0 ]; then
        echo "FAIL (exit status $status): mpirun --oversubscribe --bind-to none -n $ranks ${base[*]} $3 sweep -s $seed -n $cases ${options[*]}"
        { grep -E '^sweep:' "$log" || tail -n 20 "$log"; } | head -n 20
    fi
    grep '^covers ' "$log" >>"$covers"
}

# All of this would pass as well if another component did the work.
if [ "${base[*]}" = '--mca coll dma' ]; then
    launch 60 2 "${base[@]}" --mca coll_dma_verbose 1 "$sweep" -n 1 2>&1 | grep -Eq 'coll/dma: .* 2 ranks, ready'
    verdict "coll/dma serves the sweep's communicators" $?
fi
for ranks in 1 2 3 4 5 6 7 8 9; do
    sweep_run $ranks 120 "$ob1"
done
for ranks in 2 4 7; do
    sweep_run $ranks 80 "$ucx"
done
for variant in host_line host_slot host_pipe host_cross; do
    for ranks in 2 3 5; do
        sweep_run $ranks 40 "$ob1 --mca coll_dma_variant $variant"
    done
done
sweep_run 2 80 "$ob1 $tight --mca coll_dma_ring_depth 4 --mca coll_dma_chunk_depth 1 --mca coll_dma_cross_memory 0"
sweep_run 5 80 "$ob1 $tight --mca coll_dma_ring_depth 4 --mca coll_dma_chunk_depth 2 --mca coll_dma_cross_memory 0"
sweep_run 4 40 "$ucx $tight --mca coll_dma_ring_depth 4 --mca coll_dma_chunk_depth 3 --mca coll_dma_variant host_pipe"
sweep_run 3 40 "$ob1 --mca coll_dma_cross_memory 0"
sweep_run 4 40 "$ob1 --mca coll_dma_arena_bytes 300000"
sweep_run 4 40 "$ob1" -t
# Reading a peer's memory begins to fail on one rank, in the middle of everything. Open MPI's own messages, which would
# not survive that, do without.
sweep_run 3 40 "$ob1 --mca btl_vader_single_copy_mechanism none --mca coll_dma_variant host_cross -x LD_PRELOAD=$shim -x DMA_BREAK_READ=1:150"
# Without yielding: as users run it when there is a core for each rank, and briefly when there is not.
sweep_run 2 80 '--mca pml ob1 --mca mpi_yield_when_idle 0'
sweep_run 3 10 '--mca pml ob1 --mca mpi_yield_when_idle 0'

if [ ${#verbose[@]} -gt 0 ]; then
    awk '{ n = $NF; $NF = ""; sum[$0] += n } END { for (f in sum) printf "%s%d\n", f, sum[f] }' "$covers" | sort
fi
finish
