#!/bin/bash
# slurm_jobs.sh WORK BUILD: the part of slurm.sh that runs on the head of a testbed with three hosts. Part of the suite slurm.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
# shellcheck source=test/lib.sh
. "$root/test/lib.sh"
work=$1 build=$2
export SLURM_CONF=$work/slurm.conf
# A factor for time limits, so that they end only jobs that hang, also on a busy machine.
patience=10

on() {
    "$here/bed-ctl" "$1" run "${@:2}"
}

# ---- the cluster ----

# Each host has a /tmp of its own. /run is shared.
configure() {
    head -c 1024 /dev/urandom >"$work/munge.key"
    cat >"$SLURM_CONF" <<END
ClusterName=bed
SlurmctldHost=head(10.77.0.254)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=/tmp/munge/socket
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
GresTypes=gpu
SelectType=select/cons_tres
AccountingStorageType=accounting_storage/none
ReturnToService=2
KillWait=2
StateSaveLocation=/tmp/slurmctld
SlurmctldPidFile=/tmp/slurmctld/pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdPidFile=/tmp/slurmd/pid
SlurmdSpoolDir=/tmp/slurmd
SlurmdLogFile=$work/slurmd.%n.log
SlurmdParameters=config_overrides
NodeName=h0 NodeAddr=10.77.0.1 CPUs=8 Gres=gpu:4
NodeName=h1 NodeAddr=10.77.0.2 CPUs=8 Gres=gpu:4
NodeName=h2 NodeAddr=10.77.0.3 CPUs=8 Gres=gpu:4
PartitionName=all Nodes=ALL Default=YES State=UP
END
    # slurmd asks for cgroups even if it uses none, and looks for none where they are of version 1.
    echo 'CgroupPlugin=cgroup/v1' >"$work/cgroup.conf"
    echo 'Name=gpu File=/tmp/slurmd/gpu[0-3]' >"$work/gres.conf"
    cat >"$work/munge.sh" <<'END'
mkdir -p /tmp/munge /tmp/slurmd
cp "$1/munge.key" /tmp/munge/key && chmod 600 /tmp/munge/key
for gpu in 0 1 2 3; do
    mknod /tmp/slurmd/gpu$gpu c 1 3
done
munged --key-file=/tmp/munge/key --pid-file=/tmp/munge/pid --log-file=/tmp/munge/log --seed-file=/tmp/munge/seed \
    --socket=/tmp/munge/socket
END
}

start() {
    local host
    configure
    mkdir -p /tmp/slurmctld
    bash -e "$work/munge.sh" "$work" || return
    slurmctld || return
    for host in h0 h1 h2; do
        on $host bash -e "$work/munge.sh" "$work" && on $host env SLURM_CONF="$SLURM_CONF" slurmd -N $host || return
    done
    # shellcheck disable=SC2016
    wait_for '[ "$(sinfo -h -t idle -o %D)" = 3 ]' || { sinfo; tail "$work"/*.log; return 1; }
}

# wait_for CONDITION: waits at most 30 s * patience
turns=$((150 * patience))
wait_for() {
    local i
    for ((i = 0; i < turns; i++)); do
        ! eval "$1" || return 0
        sleep 0.2
    done
    return 1
}

# ---- what is left ----

# Prints what is on a host: processes, shared memory, files, listening sockets.
here_now() {
    # shellcheck disable=SC2016
    on "$1" bash -c 'ps -eo args= | grep -vE "^(ps|sort|ls|cat|awk|grep|ss) " | sort
        ls -A /dev/shm /tmp; cat /proc/sysvipc/shm | grep -v shmid
        ss -Hxl | awk "{ print \$5 }" | sort
        ss -Htl | awk "{ print \$4 }" | sort'
}

remember() {
    local host
    for host in h0 h1 h2; do
        here_now $host >"$work/before.$host"
    done
}

# Nothing is on the hosts that was not there before.
nothing_left() {
    local host left=0
    for host in h0 h1 h2; do
        wait_for "here_now $host | diff '$work/before.$host' - >'$work/left'" || {
            echo "$host:"
            cat "$work/left"
            left=1
        }
    done
    return $left
}

# is_noticed file|process: the check notices a file or a process that a job has left
is_noticed() {
    local pid=0 status=0
    case $1 in
    file) on h1 touch /dev/shm/left ;;
    process)
        on h1 timeout 60 tail -f /dev/null >/dev/null 2>&1 &
        pid=$!
        ;;
    esac
    sleep 0.3
    if (turns=3 && nothing_left); then
        status=1
    fi
    [ $pid = 0 ] || { kill $pid && wait $pid; }
    on h1 rm -f /dev/shm/left
    return $status
}

# ---- jobs ----

# batch SCRIPT PROGRAM...: submits a job as a user on the first host, waits for its end, and prints its output
batch() {
    local status=0
    timeout $((30 * patience)) "$here/bed-ctl" h0 run env SLURM_CONF="$SLURM_CONF" OMPI_MCA_mpi_yield_when_idle=1 \
        sbatch --wait --output="$work/output" "$root/examples/slurm/$1" "${@:2}" || status=$?
    cat "$work/output"
    return $status
}

# right SCRIPT TASKS CHECK PROGRAM...: the result of the job is right, coll/dma has served it, and CHECK succeeds
right() {
    local output script=$1 tasks=$2 check=$3
    shift 3
    output=$(batch "$script" "$@" 2>&1) || { echo "$output"; return 1; }
    echo "$output"
    grep -q "coll/dma: communicator MPI_COMM_WORLD.*: $tasks ranks, ready" <<<"$output" &&
        grep -qE "$check" <<<"$output" && nothing_left
}

# in_background SCRIPT: starts a long job and waits until its loop has begun; sets $job to its number
in_background() {
    rm -f "$work/output"
    job=$(on h0 env SLURM_CONF="$SLURM_CONF" OMPI_MCA_mpi_yield_when_idle=1 sbatch --parsable --output="$work/output" \
        "$root/examples/slurm/$1" "$build/test/bed/coll_loop" -s 1000)
    wait_for "grep -qs '^looping' '$work/output'" || { cat "$work/output"; return 1; }
}

state_of() {
    scontrol show job "$1" | sed -n 's/.*JobState=\([A-Z]*\).*/\1/p'
}

# ended JOB STATE: the job ends in this state, within half a minute (on a machine that is not busy), and leaves nothing
ended() {
    wait_for "[ \"\$(state_of $1)\" = $2 ] && [ \"\$(sinfo -h -t idle -o %D)\" = 3 ]" || {
        echo "job $1 is $(state_of "$1"), not $2"
        sinfo
        cat "$work/output"
        return 1
    }
    nothing_left || { cat "$work/output"; return 1; }
}

killed_task() {
    in_background "$1" || return
    # shellcheck disable=SC2016
    on h1 bash -c 'kill -9 $(ps -eo pid=,comm= | sed -n "s/^ *\([0-9]*\) coll_loop$/\1/p" | head -n 1)' || return
    ended "$job" FAILED
}

cancelled() {
    in_background "$1" || return
    on h0 env SLURM_CONF="$SLURM_CONF" scancel "$job" || return
    ended "$job" CANCELLED
}

check=$build/examples/allgather_check
ok 'slurmctld, three slurmd and munge' start
[ $failed = 0 ] || finish || exit 1
remember
ok 'a file that is left is noticed' is_noticed file
ok 'a process that is left is noticed' is_noticed process
ok 'one node, 4 tasks' right one-node.sbatch 4 '4 ranks: +100663296 bytes checked, 0 wrong' "$check"
ok 'three nodes, 2 tasks each' right many-nodes.sbatch 6 '6 ranks: .* bytes checked, 0 wrong' "$check"
ok 'three nodes, with mpirun' right with-mpirun.sbatch 6 '6 ranks: .* bytes checked, 0 wrong' "$check"
# shellcheck disable=SC2016
ok 'a GPU for each task' right gpu-per-task.sbatch 4 'task 3 has GPU 3$' \
    bash -c 'echo "task $SLURM_PROCID has GPU $CUDA_VISIBLE_DEVICES"; exec "$0"' "$check"
for script in one-node many-nodes with-mpirun; do
    [ $script = one-node ] || ok "$script: a killed task" killed_task $script.sbatch
    ok "$script: a cancelled job" cancelled $script.sbatch
done
finish
