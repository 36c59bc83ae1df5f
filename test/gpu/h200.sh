#!/bin/bash
# h200.sh [-t SECONDS] STAGE...: the stream engine on a machine with NVIDIA GPUs: built, tested, and measured beside NCCL.
# h200.sh -c: says which changes for the components with faults do not change the code any more; builds and runs nothing.
# Not part of ./check, which runs device.sh on an emulated node.
#
#     build     the component and the benchmark from this tree (a distribution: nothing but a compiler, make and Open MPI
#               is needed), the same with one copy left out, the same without care for copies that return early, matrix
#               products
#     sweep     random collectives on device memory, 1, 2 and 4 ranks, in all forms, among host memory too; what must fail
#     apps      what applications do around the calls: copies that return early, resets, all kinds of memory, one rank
#     kinds     what each kind of memory costs, and new buffers, and many of them
#     stage     how fast device memory is staged in host memory, beside a plain copy of pinned memory
#     slots     calls through pinned memory that the ranks share, and calls in pinned and managed memory: right, and what they
#               cost, beside a build in which neither is done
#     passes    all-gather and all-to-all at all sizes beside NCCL's, in interleaved passes
#     gemm      the same with matrix products on every GPU
#     overlap   non-blocking calls with computing beside them
#     late      what an all-gather takes from a product beside it, if ranks do not arrive together
#     queue     persistent calls in the order of a stream, 100 before the host waits, beside NCCL's
#     instream  the same, and rounds and layers, with starts that the stream makes itself; what is freed while a stream waits
#     schedules layers whose products and collectives run one after the other or side by side, beside NCCL's (test/gpu/schedules)
#     energy    of large all-gathers
#     parts     libmpix_dma: a layer three ways with cuBLAS (examples/layer.c), random partitioned collectives, examples
#
# Stages are independent: one that fails says so and the next one runs. Results go to $OUT (default: ./h200-out), the
# tables to stdout too. -t: seconds for all stages (default 520), of which each gets what is left at most.
#
# The environment may say where things are: CUDA_HOME, NCCL_HOME (with lib/), DMA_H200_WORK (builds; default
# /tmp/dma-h200). CUDA_HOME=none: no NVIDIA machine, without NCCL and matrix products. NRANKS: default 4. CASES: of the
# sweep, in all. SIZES: of receive buffers, MIN:MAX. MPIRUN_ARGS: more for mpirun.
#
# NVLink multicast stays off (NCCL_NVLS_ENABLE=0): some machines forbid it.
set -uo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
out=${OUT:-$PWD/h200-out}
work=${DMA_H200_WORK:-/tmp/dma-h200}
cores=$(nproc)
ranks=${NRANKS:-4}
cases=${CASES:-5600}
sizes=${SIZES:-1024:1073741824}
seconds=520
only_changes=0
export NCCL_NVLS_ENABLE=0 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

while getopts t:c option; do
    case $option in
    t) seconds=$OPTARG ;;
    c) only_changes=1 ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
if [ $# = 0 ] && [ $only_changes = 0 ]; then
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
end=$((SECONDS + seconds))
failed=()

# limited SECONDS CMD...: CMD, for at most this time and never beyond the end
limited() {
    local limit=$1 left=$((end - SECONDS))
    shift
    [ "$left" -gt 5 ] || { echo "no time left for: $*"; return 1; }
    [ "$limit" -lt "$left" ] || limit=$left
    timeout --kill-after=5 "$limit" "$@"
}

# ---- build ----

nccl_home() {
    [ -z "${NCCL_HOME:-}" ] || { echo "$NCCL_HOME"; return; }
    python3 -c 'import nvidia.nccl; print(list(nvidia.nccl.__path__)[0])' 2>/dev/null
}

cuda_home() {
    local nvcc
    [ -z "${CUDA_HOME:-}" ] || { echo "$CUDA_HOME"; return; }
    for nvcc in "$(command -v nvcc)" /usr/local/cuda*/bin/nvcc; do
        [ ! -x "$nvcc" ] || { dirname "$(dirname "$(readlink -f "$nvcc")")"; return; }
    done
}

# component TREE BUILD TARGET...
component() {
    local tree=$1 build=$2
    shift 2
    mkdir -p "$build" && cd "$build" || return 1
    [ -e Makefile ] || "$tree/configure" -q || return 1
    make -s -j"$cores" all "$@"
}

# broken_component NAME FILE SED [FILE SED...]: the component with changes that a stage must notice
broken_component() {
    local name=$1 tree=$work/$1-tree file
    shift
    mkdir -p "$tree"
    (cd "$root" && tar cf - --exclude=./build --exclude='./build-*' --exclude=./h200-out --exclude=./.git .) |
        tar xf - -C "$tree" || return 1
    while [ $# -gt 0 ]; do
        file=ompi_coll_dma/$1
        sed -i "$2" "$tree/$file"
        ! cmp -s "$root/$file" "$tree/$file" || return 1
        shift 2
    done
    component "$tree" "$work/$name"
}

# check_component NAME FILE SED [FILE SED...]: without a copy of the tree: does each of the changes change its file?
check_component() {
    local name=$1 status=0
    shift
    while [ $# -gt 0 ]; do
        if sed "$2" "$root/ompi_coll_dma/$1" | cmp -s - "$root/ompi_coll_dma/$1"; then
            echo "component $name: $1 is not changed by $2"
            status=1
        fi
        shift 2
    done
    return $status
}

# broken_components broken_component|check_component: each of them
broken_components() {
    # The last push to a peer is left out of every batch.
    "$1" broken engine/stream/work.c \
        's/rt->copy_batch(stream, c->dst, c->src, c->bytes, c->n) : DMA_OK;/rt->copy_batch(stream, c->dst, c->src, c->bytes, c->n - 1) : DMA_OK;/' &&
        "$1" careless gpu/cuda/query.c 's/table->adopt = .*/table->adopt = NULL; (void)adopt;/' &&
        # Large calls are done as before there were slots, and as before engines took pinned and managed memory.
        "$1" before device/device.h 's/^#define DEVICE_SLOTS_FROM .*/#define DEVICE_SLOTS_FROM UINT64_MAX/' \
            device/resolve.c 's/^#define LINK_FROM .*/#define LINK_FROM UINT64_MAX/'
}

# plugin NAME SOURCE ARGS...: with nvcc, which knows where CUDA is
plugin() {
    local name=$1 source=$2
    shift 2
    "$(cuda_home)/bin/nvcc" -O2 -shared -Xcompiler -fPIC "$root/test/gpu/$source" -o "$work/lib$name.so" "$@"
}

build_gemm() {
    local header library
    plugin gemm gemm_cublas.c -lcublas 2>"$work/gemm.log" && return
    header=$(python3 -c 'import glob, nvidia; print(*[f for p in nvidia.__path__ for f in glob.glob(p + "/*/include/cublas_v2.h")])' |
        cut -d' ' -f1)
    library=$(python3 -c 'import glob, nvidia; print(*[f for p in nvidia.__path__ for f in glob.glob(p + "/*/lib/libcublas.so.*")])' |
        cut -d' ' -f1)
    if [ -z "$header" ] || [ -z "$library" ]; then
        cat "$work/gemm.log"
        echo 'no cuBLAS'
        return 1
    fi
    plugin gemm gemm_cublas.c -I"$(dirname "$header")" -Xlinker "$library" -Xlinker -rpath -Xlinker "$(dirname "$library")"
}

stage_build() {
    local status=0
    broken_components broken_component >"$work/broken.log" 2>&1 &
    component "$root" "$work/build" test/mpi/sweep test/gpu/runtime_check test/gpu/app_check test/gpu/app_table \
        test/gpu/stage_speed test/gpu/late test/gpu/schedules/schedules \
        test/mpix/parts test/mpix/rounds test/mpix/streams test/mpix/stream_cases >"$work/build.log" 2>&1 || status=1
    if [ "$(cuda_home)" != none ]; then
        [ -n "$(rival)" ] || { echo 'NCCL is not measured: set NCCL_HOME'; status=1; }
        build_gemm || { echo 'no matrix products'; status=1; }
    fi
    wait $! || { echo 'the broken components were not built'; tail -n 5 "$work/broken.log"; status=1; }
    [ -e "$work/build/test/gpu/app_check" ] || { tail -n 20 "$work/build.log"; return 1; }
    ls "$work"/*.so "$work"/*/mca/*.so 2>/dev/null
    return $status
}

# ---- runs ----

# run BUILD RANKS ARGS...: mpirun with the component of that build
run() {
    local build=$1 n=$2 extra
    read -ra extra <<<"${MPIRUN_ARGS:-$spin}"
    shift 2
    "$root/with-build" --build "$work/$build" mpirun --oversubscribe --bind-to none -n "$n" --mca pml ob1 --mca btl self,vader \
        --mca coll dma --mca coll_dma_engine "${engine:-stream}" --mca coll_dma_arena_bytes 67108864 "${extra[@]}" "$@"
}
export -f run
# A core for every rank and its helpers, because waiting ranks keep theirs.
spin=''
[ "$cores" -lt 16 ] || spin='--mca mpi_yield_when_idle 0'
export root work spin

limited_run() {
    local limit=$1
    shift
    limited "$limit" bash -c 'run "$@"' run "$@"
}

machine() {
    echo "$(date -u +%F\ %H:%M) UTC, $cores cores, $(mpirun --version 2>/dev/null | head -n 1)"
    nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | sort | uniq -c
    python3 -c 'import importlib.metadata as m; print("NCCL", *{d.version for d in m.distributions() if "nccl" in (d.name or "")})' \
        2>/dev/null
}

# one_sweep NAME RANKS SEED CASES PERCENT [GPUS]: in the background, to a log of its own
one_sweep() {
    local visible=()
    [ -z "${6:-}" ] || visible=(-x "CUDA_VISIBLE_DEVICES=$6" -x "HIP_VISIBLE_DEVICES=$6")
    limited_run "$sweep_limit" build "$2" "${visible[@]}" "$work/build/test/mpi/sweep" -s "$3" -n "$4" -d "$5" -m 33554432 -w 60 \
        >"$work/sweep-$1.log" 2>&1
    echo "$1: $2 ranks, seed $3, $5 % of the buffers in device memory: $(tail -n 1 "$work/sweep-$1.log")"
}

stage_sweep() {
    local share=$((cases / 8)) i status=0 count sweep_limit=220 parallel=8 gpus
    "$work/build/test/gpu/runtime_check" "$([ "$(cuda_home)" = none ] && echo hip || echo cuda)" >"$out/runtime.log" 2>&1
    grep -Ev '^(ok|skip)' "$out/runtime.log" | tail -n 5
    [ "$cores" -ge 16 ] || parallel=1
    for i in 1 2 3 4 5 6 7 8; do
        gpus=''
        [ $((i % 4)) != 3 ] || [ "$ranks" -lt 4 ] || gpus=2,3 # we may expect as many GPUs as ranks
        one_sweep $i $((i == 8 ? 1 : i % 2 ? 2 : ranks)) $((100 + i)) "$share" $((i > 4 ? 50 : 100)) "$gpus" >>"$work/sweep.txt" &
        [ $((i % parallel)) != 0 ] || wait
    done
    wait
    sort "$work/sweep.txt"
    count=$(sed -n 's/.*: \([0-9]*\) passed, 0 failed$/\1/p' "$work/sweep.txt" | awk '{ n += $1 } END { print n + 0 }')
    echo "$count cases right"
    [ "$count" -ge $((share * 8)) ] || status=1
    grep -h -m 3 -E 'FAILED|hangs|crashes|abort' "$work"/sweep-*.log | cut -c1-400 | head -n 8
    rm -f "$work/sweep.txt"
    # A missing copy must be noticed.
    sweep_limit=90
    limited_run 90 broken "$ranks" "$work/build/test/mpi/sweep" -n 20 -d 100 -o allgather -f b -w 20 >"$work/sweep-broken.log" 2>&1
    if grep -q 'FAILED: receive buffer' "$work/sweep-broken.log"; then
        echo "with a copy left out: noticed: $(grep -m 1 -o 'receive buffer: .*expected[^;]*' "$work/sweep-broken.log")"
    else
        echo 'with a copy left out: NOT NOTICED'
        tail -n 3 "$work/sweep-broken.log"
        status=1
    fi
    return $status
}

# app_case WANTED BUILD RANKS CASE [MPIRUN-ARGS...]: WANTED: right or wrong
app_case() {
    local wanted=$1 build=$2 n=$3 case=$4 seen=right log
    shift 4
    log=$work/app-$case-$n-$build$(printf %s "$@" | tr -c 'a-z0-9' _).log
    limited_run 60 "$build" "$n" "$@" "$work/build/test/gpu/app_check" "$case" >"$log" 2>&1 || seen="wrong ($?)"
    ! grep -q 'bytes are wrong' "$log" || seen=wrong
    echo "$case, $n ranks, $build $*: $seen"
    grep 'us a call' "$log"
    [ "$seen" = "$wanted" ] && return
    echo "  expected: $wanted"
    grep -v '^$' "$log" | head -n 12
    return 1
}

stage_apps() {
    local status=0 n case
    for n in 1 "$ranks"; do
        for case in self stale kinds remap reset again; do
            app_case right build "$n" "$case" || status=1
        done
        app_case right build "$n" start --mca coll_dma_stream_sync 1 || status=1
    done
    # Without this care, the fault must be visible.
    app_case wrong careless "$ranks" stale || status=1
    app_case wrong build "$ranks" start || status=1
    return $status
}

stage_stage() {
    limited 120 "$work/build/test/gpu/stage_speed" "$([ "$(cuda_home)" = none ] && echo hip || echo cuda)" 2>&1 |
        tee -a "$out/stage.txt"
    awk '/^data wrong/ { wrong = 1 } /^staging/ { least = $2 } END { exit wrong || least < 0.8 }' "$out/stage.txt" || {
        echo 'staging is slower than 0.8 of a plain copy, or data are wrong'
        return 1
    }
}

# table BUILD NAME ENGINE ARGS...: what each kind of memory costs, of 1 and 64 MiB
table() {
    local build=$1 name=$2
    echo "-- $build: $name"
    engine=$3 limited_run 60 "$build" "$ranks" "${@:4}" "$work/build/test/gpu/app_table" kinds 1048576 67108864 2>&1 |
        tee "$out/slots-$build-$name.txt"
    grep -q '^ *67108864  host  *host ' "$out/slots-$build-$name.txt"
}

# The time that the links need for the all-gather of 64 MiB beside the time that it has taken: all that a GPU's ranks receive of
# others goes over its link. Links are slower while they copy in both directions, so that rate is printed, too.
slots_fraction() {
    local gpus rate both
    gpus=$(nvidia-smi -L 2>/dev/null | wc -l)
    [ "$gpus" -gt 0 ] || gpus=1
    [ "$gpus" -lt "$ranks" ] || gpus=$ranks
    read -r rate both < <("$work/build/test/gpu/stage_speed" "$([ "$(cuda_home)" = none ] && echo hip || echo cuda)" 0 67108864 |
        awk '$2 == 67108864 && ($1 == "read" || $1 == "write") && (!least || $3 < least) { least = $3 }
            $2 == 67108864 && $1 == "both" { both = $3 } END { print least + 0, both + 0 }')
    awk -v ranks="$ranks" -v gpus="$gpus" -v rate="$rate" -v both="$both" '$1 == 67108864 && $2 == "plain" && $3 == "plain" {
        bytes = $1 / ranks * (ranks - 1) * (ranks / gpus)
        need = bytes / rate / 1e3
        printf "slots %.2f of the link (%.1f GB/s, %.0f us)", need / $4, rate, need
        printf ", %.2f of the link in both directions (%.1f GB/s, %.0f us)\n", bytes / both / 1e3 / $4, both, bytes / both / 1e3 }' \
        "$out/slots-build-none.txt"
}

stage_slots() {
    local status=0 sweep_limit=60 b i
    export engine
    for b in before build; do
        table "$b" none none || status=1
        table "$b" engine stream || status=1
    done
    table build scratch0 stream --mca coll_dma_scratch_bytes 0 || status=1
    table build pinned2 none --mca coll_dma_pinned_bytes 2000000 || status=1
    slots_fraction | tee -a "$out/slots.txt"
    for i in 1 2 3 4; do
        engine=none one_sweep "slots$i" "$ranks" $((300 + i)) 100 $((i > 2 ? 50 : 100)) >>"$work/slots-sweep.txt" &
    done
    wait
    cat "$work/slots-sweep.txt"
    [ "$(grep -c ': 100 passed, 0 failed$' "$work/slots-sweep.txt")" = 4 ] || status=1
    rm -f "$work/slots-sweep.txt"
    awk '/^slots/ { least = $2 } END { exit least < 0.8 }' "$out/slots.txt" || {
        echo 'by slots is slower than 0.8 of the link'
        status=1
    }
    return $status
}

stage_kinds() {
    limited_run 150 build "$ranks" "$work/build/test/gpu/app_table" 2>&1 | tee -a "$out/kinds.txt"
    grep -q '^requests' "$out/kinds.txt"
}

# From sizes of receive buffers to sizes of blocks.
blocks() {
    echo "$((${sizes%:*} / ranks)):$((${sizes#*:} / ranks))"
}

# The options of coll_dma_bench for NCCL and for matrix products.
rival() { [ ! -e "$(nccl_home)/lib/libnccl.so.2" ] || echo "--nccl $(nccl_home)/lib/libnccl.so.2"; }
gemm() { [ ! -e "$work/libgemm.so" ] || echo "--load $work/libgemm.so"; }
runtime() { if [ "$(cuda_home)" = none ]; then echo rocm; else echo cuda; fi; }

# bench NAME LIMIT MPIRUN-ARGS -- BENCH-ARGS
bench() {
    local name=$1 limit=$2 args=() status
    shift 2
    while [ "$1" != -- ]; do
        args+=("$1")
        shift
    done
    shift
    echo "-- $name"
    limited_run "$limit" build "$ranks" "${args[@]}" "$work/build/tools/bench/coll_dma_bench" -d "$(runtime)" \
        --csv "$out/$name.csv" --json "$out/$name.json" "$@" >"$work/$name.log" 2>"$work/$name.err"
    status=$?
    cat "$work/$name.log"
    [ $status = 0 ] || tail -n 5 "$work/$name.err"
    cat "$work/$name.log" "$work/$name.err" >>"$out/log.txt"
    return $status
}

# Persistent calls are compared with NCCL's graphs.
# shellcheck disable=SC2046
stage_passes() {
    local status=0 args=(-m "$(blocks)" -F 4 -i 100:30 -p 15)
    bench passes 150 -- $(rival) "${args[@]}" -T 100 allgather alltoall allgather_persistent alltoall_persistent || status=1
    bench passes-in-place 110 -- $(rival) "${args[@]}" -T 70 -I allgather alltoall allgather_persistent || status=1
    return $status
}

# Each size on an idle machine, and during matrix products.
# shellcheck disable=SC2046
stage_gemm() {
    local modes=nccl,nccl-reg,nccl-sym,nccl-zero
    local status=0 args=(-m "$((65536 / ranks)):$((67108864 / ranks))" -F 16 -i 200:200 -p 3 -r "$modes")
    [ -n "$(gemm)" ] || { echo 'no matrix products were built'; return 1; }
    [ -n "$(rival)" ] || args+=(-r none)
    bench gemm-idle 60 -- $(rival) "${args[@]}" -I allgather || status=1
    bench gemm-busy 90 -- $(rival) $(gemm) "${args[@]}" -I allgather || status=1
    bench gemm-busy-auto 40 --mca coll_dma_own_copy auto -- $(gemm) "${args[@]:0:8}" -r none allgather alltoall || status=1
    return $status
}

stage_overlap() {
    bench overlap 60 -- -r none -m "$(blocks)" -F 4 -i 100:20 -p 5 -T 40 iallgather ialltoall
}

# With and without the thread that starts what late ranks have made possible.
stage_late() {
    local status=0 thread folder
    folder=$(cublas_folder)
    [ -n "$folder" ] || { echo 'no cuBLAS'; return 1; }
    for thread in 1 0; do
        echo "-- progress_thread $thread"
        limited_run 60 build "$ranks" --mca coll_dma_progress_thread $thread -x LD_LIBRARY_PATH="$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
            "$work/build/test/gpu/late" 2>&1 | tee -a "$out/late.txt"
        [ "${PIPESTATUS[0]}" = 0 ] || status=1
    done
    return $status
}

# Streams wait for MPI only where the program allows it (docs/user/queues.md). Copies inside of a device are kernels if they are
# graphs, and their first launch waits for the whole device.
streams_wait=(-x MPIX_DMA_WAITING_STREAMS=8 -x CUDA_DEVICE_MAX_CONNECTIONS=32 --mca coll_dma_own_copy copy)
streams_start=(-x MPIX_DMA_IN_STREAM=1)
queues=("${streams_wait[@]}") # of the present stage

# queues_beside_nccl NAME [BYTES]: for receive buffers of at most this size
# shellcheck disable=SC2046
queues_beside_nccl() {
    local status=0 modes=nccl,nccl-reg,nccl-sym,nccl-zero args
    args=(-m "$((1024 / ranks)):$((${2:-16777216} / ranks))" -F 4 -i 20 -x 2 -k 100 -p 5 -T 40 -r "$([ -n "$(rival)" ] && echo $modes || echo none)")
    bench "$1" 90 "${queues[@]}" -x LD_LIBRARY_PATH="$work/build/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" -- \
        $(rival) "${args[@]}" allgather_queue alltoall_queue || status=1
    bench "$1-in-place" 60 "${queues[@]}" -x LD_LIBRARY_PATH="$work/build/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" -- \
        $(rival) "${args[@]}" -I allgather_queue allgather_persistent || status=1
    return $status
}

stage_queue() {
    queues_beside_nccl queue
}

# What the library says is part of the result: a start that the stream does not make itself is named.
stage_instream() {
    local status=0 queues=("${streams_start[@]}")
    mpix rounds-in-stream 40 "$work/build/test/mpix/rounds" cuda device multiple free 1 400 || status=1
    mpix rounds-in-stream-serialized 40 "$work/build/test/mpix/rounds" cuda device serialized free 2 400 || status=1
    ranks=$((ranks < 3 ? 3 : ranks)) mpix freed-in-stream 60 "$work/build/test/mpix/stream_cases" cuda serialized freed apart || status=1
    queues_beside_nccl queue-in-stream || status=1
    schedules 60 bf16 gather:{4096,8192,16384} exchange:{4096,8192,16384} || status=1
    return $status
}

# schedules LIMIT TYPE WORKS...: a file of each type has all rows
schedules() {
    local limit=$1 type=$2 folder nccl=()
    folder=$(cublas_folder)
    [ -n "$folder" ] || { echo 'no cuBLAS'; return 1; }
    [ ! -e "$(nccl_home)/lib/libnccl.so.2" ] || nccl=(-n "$(nccl_home)/lib/libnccl.so.2")
    limited_run "$limit" build "$ranks" "${queues[@]}" -x MPIX_DMA_VERBOSE=1 \
        -x LD_LIBRARY_PATH="$work/build/.libs:$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$work/build/test/gpu/schedules/schedules" \
        cuda -t "$type" "${nccl[@]}" -r 25 -l 6 -c "$out/schedules.csv" "${@:3}" >"$work/schedules-$type.log" 2>&1
    cat "$work/schedules-$type.log" >>"$out/schedules.txt"
    grep -v '^$' "$work/schedules-$type.log"
    grep -q '^data right' "$work/schedules-$type.log"
}

# Squares of which each rank makes a part, layers of a transformer, and layers with experts: hidden layers of 4 times the width;
# 8 large experts (4096 tokens with 2 experts each), and 16 small ones.
stage_schedules() {
    local status=0
    schedules 40 bf16 gather:{4096,8192,16384} exchange:{4096,8192,16384} || status=1
    schedules 40 bf16 transformer:{2048x4096x16384,8192x4096x16384,8192x8192x32768} moe:8192x4096x14336x4 moe:8192x7168x2048x8 || status=1
    schedules 40 tf32 gather:{4096,8192,16384} exchange:{4096,8192,16384} || status=1
    return $status
}

# shellcheck disable=SC2046
stage_energy() {
    local size=$((268435456 / ranks))
    bench energy 120 -- $(rival) -m "$size:$size" -i 20 -p 1 --energy allgather
}

# mpix NAME LIMIT CMD...: with the library, and with streams that may wait
mpix() {
    local name=$1 limit=$2 libraries
    shift 2
    libraries=$(cublas_folder)
    echo "-- $name"
    limited_run "$limit" build "$ranks" "${queues[@]}" -x MPIX_DMA_VERBOSE=1 \
        -x LD_LIBRARY_PATH="$work/build/.libs${libraries:+:$libraries}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$@" >"$work/$name.log" 2>&1 ||
        { tail -n 8 "$work/$name.log"; return 1; }
    tail -n 5 "$work/$name.log" | tee -a "$out/parts.txt"
}

cublas_folder() {
    local folder
    for folder in "$(cuda_home)/lib64" "$(cuda_home)/targets/x86_64-linux/lib" \
        "$(python3 -c 'import glob, nvidia; print(*[f for p in nvidia.__path__ for f in glob.glob(p + "/*/lib/libcublas.so.*")])' 2>/dev/null |
            cut -d' ' -f1 | xargs -r dirname)"; do
        ! compgen -G "$folder/libcublas.so.*" >/dev/null || { echo "$folder"; return; }
    done
}

# layer PARTS ROWS WIDTH COLUMNS: three times, because each measurement of a size is short
layer() {
    local name=layer-$2-$3-$4-$1 i
    "$root/with-build" --build "$work/build" mpicc -O2 -DSIZES="ROWS=$2,WIDTH=$3,COLUMNS=$4,PARTS=$1" "$root/examples/layer.c" \
        -I"$root/include" -o "$work/$name" -lmpix_dma -ldl || return 1
    for i in 1 2 3; do
        mpix "$name-$i" 30 "$work/$name" --device || return 1
    done
}

stage_parts() {
    local status=0 n parts
    mpix parts-cuda 40 "$work/build/test/mpix/parts" cuda device multiple 1 30 || status=1
    mpix rounds-cuda 30 "$work/build/test/mpix/rounds" cuda device multiple free 1 100 || status=1
    [ -n "$(cublas_folder)" ] || { echo 'no cuBLAS: products are not timed'; return 1; }
    for n in 4096 8192; do
        for parts in 2 4 8; do
            layer $parts $((n / ranks)) "$n" $((n / ranks)) || status=1
        done
    done
    layer 8 $((16384 / ranks)) 16384 $((16384 / ranks)) || status=1
    return $status
}

if [ $only_changes = 1 ]; then
    broken_components check_component
    exit
fi
mkdir -p "$out" "$work" || exit 1
machine | tee -a "$out/log.txt"
for stage; do
    start=$SECONDS
    if ! declare -F "stage_$stage" >/dev/null; then
        echo "no stage $stage" >&2
        exit 2
    fi
    echo "== $stage"
    "stage_$stage" || failed+=("$stage")
    echo "== $stage: $((SECONDS - start)) s"
done
[ ${#failed[@]} = 0 ] || echo "FAILED: ${failed[*]}"
[ ${#failed[@]} = 0 ]
