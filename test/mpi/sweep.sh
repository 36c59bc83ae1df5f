#!/bin/bash
# The random sweep over 1 to 9 ranks, all operations and forms, both pmls, every forced variant, threads and extreme
# parameters: at least 20,000 cases. Every feature is in 500 of them, and every pair of features in some. Runs inside
# ./with-build.
#
#   sweep.sh [-s SEED] [-x PERCENT] [-p ucx] [-r FIRST-LAST] [-q] [-v] [-- MPIRUN-ARGS...]
#     -s  seed (default 1); -x this percentage of the cases; -v also prints what they covered; -q instead of all this 2,000
#         cases in a few runs
#     -p ucx  the same cases over pml ucx only
#     -r  only these of its runs, as -v numbers them. Coverage is judged only if nothing is left out
#     MPIRUN-ARGS  instead of "--mca coll dma"; with "--mca coll ^dma" without what stock Open MPI gets wrong
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=test/mpi/common.sh
. "$here/common.sh"

seed=1 percent=100 verbose=0 quick=0 pml=ob1 first=1 last_run=999
while getopts s:x:p:r:qv option; do
    case $option in
    s) seed=$OPTARG ;;
    x) percent=$OPTARG ;;
    p) pml=$OPTARG ;;
    r) first=${OPTARG%-*} last_run=${OPTARG#*-} ;;
    q) quick=1 ;;
    v) verbose=1 ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || set -- --mca coll dma
base=("$@") lenient=()
[[ "$*" != *'coll ^dma'* ]] || lenient=(-l bnp)
sweep=$(program sweep) shim=$(program libbreak_shim.so) || exit 1
shim=$(realpath "$shim")
runs=0 log=$(mktemp) covers=$(mktemp)
trap 'rm -f "$log" "$covers"' EXIT

ob1='--mca pml ob1 --mca mpi_yield_when_idle 1'
ucx='--mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any --mca mpi_yield_when_idle 1'
[ "$pml" != ucx ] || ob1=$ucx
# As users run it when each rank has a core.
spin=${ob1/when_idle 1/when_idle 0}
# Everything is small, so that rings, slots and chunk buffers wrap all the time.
tight='--mca coll_dma_slot_bytes 256 --mca coll_dma_chunk_bytes 4096 --mca coll_dma_ring_depth 4 --mca coll_dma_cross_memory 0'

# sweep_run RANKS CASES ARGS [OPTION...]: one mpirun; its cases are added to `passed` and `failed`
sweep_run() {
    local ranks=$1 cases=$((($2 * percent + 99) / 100)) args status=0 last options=("${@:4}" "${lenient[@]}")
    read -ra args <<<"$3"
    seed=$((seed + 1))
    runs=$((runs + 1))
    [ $runs -ge "$first" ] && [ $runs -le "$last_run" ] || return 0
    # Ranks without a core of their own take turns.
    local limit=$((30 + cases * ranks / 40)) start=${EPOCHREALTIME/[.,]/}
    launch $limit "$ranks" "${base[@]}" "${args[@]}" "$sweep" -s "$seed" -n "$cases" -w 200 -v \
        "${options[@]}" </dev/null >"$log" 2>&1 || status=$?
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
        { grep -E '^sweep:' "$log" || grep -vE '^(--|$)' "$log" | tail -n 5; } | head -n 20
    elif [ $verbose = 1 ]; then
        echo "run $runs, $(((${EPOCHREALTIME/[.,]/} - start) / 1000)) ms: $cases cases on $ranks ranks $3 ${options[*]}"
    fi
    grep -E '^(covers|pair) ' "$log" >>"$covers"
}

# All of this would also pass if another component carried out the calls.
if [ "${base[*]}" = '--mca coll dma' ]; then
    launch 60 2 "${base[@]}" --mca coll_dma_verbose 1 "$sweep" -n 1 </dev/null >"$log" 2>&1
    grep -Eq 'coll/dma: .* 2 ranks, ready' "$log"
    verdict "coll/dma serves the sweep's communicators" $?
fi

if [ $quick = 1 ]; then
    sweep_run 1 20 "$ob1"
    sweep_run 2 500 "$ob1"
    sweep_run 3 400 "$ob1"
    sweep_run 4 250 "$ob1"
    sweep_run 7 80 "$ob1 $tight --mca coll_dma_chunk_depth 4"
    sweep_run 2 250 "$ucx"
    sweep_run 3 200 "$ucx"
    sweep_run 3 200 "$ob1 --mca coll_dma_variant host_reach"
    sweep_run 3 100 "$ob1 --mca coll_dma_arena_bytes 0" -l bp
    sweep_run 3 100 "$ob1 --mca coll_dma_arena_bytes 67108864" -t 4
    finish
fi

while read -r ranks cases; do
    sweep_run "$ranks" "$cases" "$ob1"
done <<'ROWS'
1 300
2 3000
3 2500
4 2000
5 1000
6 700
7 600
8 600
9 700
ROWS
sweep_run 2 800 "$ucx"
sweep_run 3 700 "$ucx"
sweep_run 4 500 "$ucx"
sweep_run 7 150 "$ucx"
for variant in $(host_variants); do
    sweep_run 2 300 "$ob1 --mca coll_dma_variant $variant"
    sweep_run 3 250 "$ob1 --mca coll_dma_variant $variant"
    sweep_run 5 100 "$ob1 --mca coll_dma_variant $variant"
done
sweep_run 4 500 "$ob1 --mca coll_dma_variant host_reach"
sweep_run 7 150 "$ob1 --mca coll_dma_variant host_reach"
sweep_run 2 400 "$ob1 $tight --mca coll_dma_chunk_depth 1"
sweep_run 5 200 "$ob1 $tight --mca coll_dma_chunk_depth 2"
sweep_run 4 200 "$ucx $tight --mca coll_dma_chunk_depth 3 --mca coll_dma_variant host_pipe"
sweep_run 3 300 "$ob1 --mca coll_dma_cross_memory 0"
# Without shared memory, or soon without it: blocking calls go to the module below, and messages carry out the others.
sweep_run 2 300 "$ob1 --mca coll_dma_arena_bytes 0" -l b
sweep_run 3 300 "$ucx --mca coll_dma_arena_bytes 0" -l b
sweep_run 4 300 "$ob1 --mca coll_dma_arena_bytes 400000" -l b
# Four threads use 36 communicators at once: with room for all of them, and without.
roomy="$ob1 --mca coll_dma_arena_bytes 67108864"
sweep_run 2 400 "$roomy" -t 4
sweep_run 3 300 "$roomy" -t 4
sweep_run 4 200 "$roomy" -t 4
sweep_run 4 200 "$ob1" -t 4 -l b
# Reading a peer's memory begins to fail on one rank, in the middle of the run. Open MPI's own messages would not survive
# that, so they do not read.
refused="$ob1 --mca btl_vader_single_copy_mechanism none --mca smsc ^cma,knem,xpmem -x UCX_TLS=^cma -x LD_PRELOAD=$shim -x DMA_BREAK_READ=1:150"
sweep_run 3 200 "$refused"
sweep_run 3 400 "$refused --mca coll_dma_variant host_reach"
sweep_run 2 700 "$spin"
sweep_run 3 200 "$spin"
sweep_run 4 100 "$spin"

# Sums over the runs: cases of each feature, and calls of each pair.
summary=$(awk '{ n = $NF; $NF = ""; sum[$0] += n } END { for (f in sum) printf "%s%d\n", f, sum[f] }' "$covers" | sort)
[ $verbose = 0 ] || grep '^covers' <<<"$summary"

# none_below LIMIT KIND: prints what occurred less often
none_below() {
    local rare
    rare=$(awk -v limit="$1" -v kind="$2" '$1 == kind && $NF < limit' <<<"$summary")
    [ -z "$rare" ] || printf '%s\n' "$rare" | head -n 20
    [ -z "$rare" ]
}

if [ "${base[*]}" = '--mca coll dma' ] && [ "$percent" -ge 100 ] && [ "$first-$last_run" = 1-999 ]; then
    verdict "at least 20000 cases" "$((passed + failed < 20000))"
    none_below 500 covers
    verdict "every feature in at least 500 cases" $?
    none_below 10 pair
    verdict "every pair of features in at least 10 calls" $?
    flight=$(awk '/^covers in flight:/ { n += $NF } END { print n + 0 }' <<<"$summary")
    verdict "30 % of the cases with operations in flight on two communicators: $flight" "$((flight * 100 < 30 * (passed + failed)))"
fi
finish
