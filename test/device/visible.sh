#!/bin/bash
# visible.sh [BUILD]: ranks that do not see all GPUs, or see them in another order than the kernel: each link's engine stays
# the one that is recommended for it, and no rank has to see the GPUs of its peers.
set -uo pipefail
# shellcheck source=test/device/common.sh
. "$(dirname "$0")/common.sh"
export EMU_NEW_THUNK=1 # queues on engines by number

# rank SEES CMD...: a rank of a job, on a node of eight GPUs
cat >"$work/rank" <<'RANK'
#!/bin/bash
rank=$OMPI_COMM_WORLD_RANK
only() { # GPU: what a control group leaves of the machine, in which other devices' files cannot be read
    local gpu tree=$EMU_NODE/topology-$rank
    cp -r "$EMU_SYSFS" "$tree"
    for gpu in 0 1 2 3 4 5 6 7; do
        [ "$gpu" = "$1" ] || { rm "$tree/nodes/$((gpu + 1))/gpu_id" && mkdir "$tree/nodes/$((gpu + 1))/gpu_id"; }
    done
    export ROCR_VISIBLE_DEVICES=$1 OMPI_MCA_coll_dma_sysfs=$tree
}
case $1 in
reversed) export HIP_VISIBLE_DEVICES=7,6,5,4,3,2,1,0 ;;
several) # HIP counts what ROCr shows
    export ROCR_VISIBLE_DEVICES=2,0,3,1,7,5
    [ $((rank % 2)) = 0 ] || export ROCR_VISIBLE_DEVICES=7,6,5,4,3,2,1,0 HIP_VISIBLE_DEVICES=5,7,4,6 ;;
own) export HIP_VISIBLE_DEVICES=$((2 * rank)) ;;
control-group) only $((7 - rank)) ;;
one-blind) [ "$rank" != 1 ] || only 1 ;;
two-each) only $((3 + rank / 2)) ;;
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

# sees WHAT LINKS: the data are right, and so many links were used, each by its engine
sees() {
    local gpu engine peer n=0
    job 100 8 mi300x 4 --mca coll_dma_gpu_variant pcpy "$work/rank" "$1" "$build/test/device/lose" loop >"$work/out" 2>&1 ||
        { tail -n 20 "$work/out"; return 1; }
    links >"$work/links"
    while read -r gpu engine peer; do
        recommended "$gpu" "$engine" "$peer" || { echo "engine $engine of GPU $gpu has copied to GPU $peer"; return 1; }
        n=$((n + 1))
    done <"$work/links"
    cat "$work/links"
    grep -q 'lose: done' "$work/out" && silent && [ $n = "$2" ]
}

ok 'all ranks see all GPUs, in another order than the kernel' sees reversed 12
ok 'ranks see them in several orders' sees several 12
ok 'HIP shows each rank its own' sees own 12
ok 'a control group shows each rank its own' sees control-group 12
ok 'one rank sees its own, the others all' sees one-blind 12
ok 'two ranks share each GPU, and see no other' sees two-each 2
finish
