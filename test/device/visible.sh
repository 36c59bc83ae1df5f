#!/bin/bash
# visible.sh [BUILD]: ranks that do not see all GPUs, may not open all of them, or see them in another order than the kernel.
# The engine of each link is still the recommended one, and a rank need not see the GPUs of its peers.
set -uo pipefail
# shellcheck source=test/device/common.sh
. "$(dirname "$0")/common.sh"

# rank SEES CMD...: a rank of a job, on a node of eight GPUs
cat >"$work/rank" <<'RANK'
#!/bin/bash
rank=$OMPI_COMM_WORLD_RANK
only() { # GPU: ROCr shows no other GPU, and the files of the other devices cannot be read
    local gpu tree=$EMU_NODE/topology-$rank
    cp -r "$EMU_SYSFS" "$tree"
    for gpu in 0 1 2 3 4 5 6 7; do
        [ "$gpu" = "$1" ] || { rm "$tree/nodes/$((gpu + 1))/gpu_id" && mkdir "$tree/nodes/$((gpu + 1))/gpu_id"; }
    done
    export ROCR_VISIBLE_DEVICES=$1 OMPI_MCA_coll_dma_sysfs=$tree
}
cgroup() { # GPU: the device cgroup of a task
    export EMU_HIDE=0,1,2,3,4,5,6,7 OMPI_MCA_coll_dma_sysfs=$EMU_NODE/topology-$rank
    EMU_HIDE=${EMU_HIDE/$1,/}
    EMU_HIDE=${EMU_HIDE/,$1/}
    "$DMA_TEST_EMU/emu_tree" "$OMPI_MCA_coll_dma_sysfs" mi300x 8
}
case $1 in
reversed) export HIP_VISIBLE_DEVICES=7,6,5,4,3,2,1,0 ;;
several) # HIP counts the GPUs that ROCr shows
    export ROCR_VISIBLE_DEVICES=2,0,3,1,7,5
    [ $((rank % 2)) = 0 ] || export ROCR_VISIBLE_DEVICES=7,6,5,4,3,2,1,0 HIP_VISIBLE_DEVICES=5,7,4,6 ;;
own) export HIP_VISIBLE_DEVICES=$((2 * rank)) ;;
own-files) only $((7 - rank)) ;;
one-blind) [ "$rank" != 1 ] || only 1 ;;
two-each) only $((3 + rank / 2)) ;;
cgroup) cgroup $((4 + rank)) ;;
esac
exec "${@:2}"
RANK
chmod +x "$work/rank"
"$build/test/emu/emu_tree" "$work/tree" mi300x 8

# Which engine of which GPU has copied to which other one.
links() {
    cat "$work"/stats/* | awk '/^queue/ { ours = /owner mca_coll_dma/ }
        ours && sub(/gpu/, "", $9) && $8 == "moved" && $3 != $9 { print $3, $5, $9 }' | sort -u
}

# recommended GPU ENGINE PEER: by the kernel's description of the link
recommended() {
    local mask
    mask=$(grep -l "^node_to $(($3 + 1))$" "$work/tree/nodes/$(($1 + 1))"/io_links/*/properties | xargs grep -h recommended_sdma)
    [ $((${mask##* } >> $2 & 1)) = 1 ]
}

# serves LINKS WHAT ARGS...: the data are right, and this number of links was used, each by its engine if queues can name it
serves() {
    local gpu engine peer n=0
    job 100 8 mi300x 4 --mca coll_dma_gpu_variant pcpy --mca coll_dma_verbose 2 "${@:3}" "$work/rank" "$2" \
        "$build/test/device/lose" loop >"$work/out" 2>&1 || { tail -n 20 "$work/out"; return 1; }
    links >"$work/links"
    while read -r gpu engine peer; do
        recommended "$gpu" "$engine" "$peer" ||
            { echo "engine $engine of GPU $gpu has copied to GPU $peer"; return 1; }
        n=$((n + 1))
    done <"$work/links"
    cat "$work/links"
    grep -q 'lose: done' "$work/out" && silent && [ $n = "$1" ]
}

sees() {
    serves "$2" "$1"
}

# with NAME=VALUE CMD...: in this environment
with() {
    local -x "$1"
    "${@:2}"
}

# used GPUS: the component has made queues on these GPUs, and on no others
used() {
    local gpus
    gpus=$(cat "$work"/stats/* | awk '/^queue .* owner mca_coll_dma/ { print $4 }' | sort -nu | tr '\n' ' ')
    echo "queues on GPUs $gpus"
    [ "$gpus" = "$1 " ]
}

# container GPUS PROVIDER: a container with these GPUs, as "4 5"; a rank for each, again from the first on
container() {
    local gpu hide='' n=0
    for gpu in 0 1 2 3 4 5 6 7; do
        [[ " $1 " = *" $gpu "* ]] && n=$((n + 1)) || hide=$hide,$gpu
    done
    with "EMU_HIDE=${hide#,}" serves $((n > 4 ? 12 : n * (n - 1))) all --mca coll_dma_queues "$2" &&
        used "$(cut -d ' ' -f 1-4 <<<"$1")"
}

# apart PROVIDER: tasks with one GPU each. Queues work, and no memory of a peer can be opened.
apart() {
    serves 0 cgroup --mca coll_dma_queues "$1" && used '4 5 6 7' &&
        grep -q 'device memory of .* goes through the host' "$work/out"
}

ok 'all ranks see all GPUs, in another order than the kernel' sees reversed 12
ok 'ranks see them in several orders' sees several 12
ok 'HIP shows each rank its own' sees own 12
ok 'each rank can read about its own' sees own-files 12
ok 'one rank sees its own, the others all' sees one-blind 12
ok 'two ranks share each GPU, and see no other' sees two-each 2

# In a container with a part of the node, ROCr's numbers of GPUs are not the kernel's.
for provider in $(providers); do
    export EMU_ROCR_MINOR=
    [ "$provider" != rocr ] || EMU_ROCR_MINOR=31
    ok "$provider: a container without the first GPU" container '1 2 3 4 5 6 7' "$provider"
    ok "$provider: a container with the second half" container '4 5 6 7' "$provider"
    ok "$provider: a container with every second GPU" container '1 3 5 7' "$provider"
    ok "$provider: a container with one GPU" container 6 "$provider"
    ok "$provider: a container with one GPU for each rank" apart "$provider"
done
finish
