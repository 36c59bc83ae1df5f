#!/bin/bash
# info.sh [BUILD]: coll_dma_info on emulated nodes of several kinds; with hidden GPUs; with providers that do not work; with
# records that prove something, nothing, or another machine; without GPUs; under mpirun. It makes no queue unless it is asked
# to, and jobs run what it predicts.
set -uo pipefail
# shellcheck source=test/device/common.sh
. "$(dirname "$0")/common.sh"
info=$build/tools/info/coll_dma_info
schema=$root/tools/info/info.schema.json
command -v python3 >/dev/null || skip 'python3 is not installed'
export OMPI_MCA_mpi_yield_when_idle=1

# with NAME=VALUE CMD...: in this environment
with() {
    local -x "$1"
    "${@:2}"
}

# gathers GPUS PERSONA ARGS...: the document of a node (0 GPUs: of this machine). It is in $work/json and follows the schema
gathers() {
    local gpus=$1 persona=$2
    shift 2
    if [ "$gpus" = 0 ]; then
        timeout --kill-after=5 $((20 * patience)) "$root/with-build" --build "$build" "$info" --json "$@"
    else
        node 20 "$gpus" "$persona" "$info" --json "$@"
    fi >"$work/json" 2>"$work/err" || { cat "$work/err" "$work/json"; return 1; }
    follows "$work/json"
}

# One process of Python answers all questions about documents.
mkfifo "$work/questions" "$work/answers"
exec 8<>"$work/questions" 9<>"$work/answers"
"$root/test/json_ask.py" "$schema" <&8 >&9 &
asker=$!
trap 'kill "$asker"; rm -rf "$work"' EXIT

# ask LINE...: prints what the answer says. Succeeds if it is `yes`.
ask() {
    local line
    printf '%s\n' $# "$@" >&8
    while read -r -t $((60 * patience)) line <&9; do
        case $line in
        yes) return 0 ;;
        no) return 1 ;;
        esac
        printf '%s\n' "$line"
    done
    echo 'no answer'
    return 1
}

# follows FILE: the document follows the schema
follows() {
    ask "$1"
}

# is EXPRESSION...: each is true of the document `d`. g: its GPUs, s: the engine sdma of the first GPU
is() {
    ask "$work/json" "$@"
}

# queues: how many queues this program has made on the node
queues() {
    cat "$work"/stats/* 2>/dev/null | grep -c '^queue .* owner coll_dma_info'
}

# sent KIND: packets of our queues
sent() {
    cat "$work"/stats/* | awk -v kind="$1" '/^queue/ { ours = /owner coll_dma_info/ }
        ours && $1 == "sdma" && $8 == "packet" && $9 == kind { n += $10 }
        END { print n + 0 }'
}

# ---- kinds of nodes ----

# persona NAME GPUS EXPRESSION...: what the node has; nothing is made on the GPUs
persona() {
    gathers "$2" "$1" && is "len(g) == $2" "all(x['engine'] == 'sdma' and not x['self_tested'] for x in g)" \
        "d['runtime']['name'] == 'hip'" "d['runtime']['kernel_gpus'] == $2" "s['provider'] == 'kfd'" \
        "not provider('rocr')['usable']" "provider('kfd')['names_engines']" \
        "all(l['recommended'] >> l['engine'] & 1 or s['engines_absent'] for x in g for l in x['sdma']['links'])" \
        "all(x['sdma']['engines'] >> l['engine'] & 1 for x in g for l in x['sdma']['links'])" \
        "all(len(set(l['engine'] for l in x['sdma']['links'])) == $2 - 1 for x in g)" "reasons() == []" "${@:3}" &&
        [ "$(queues)" = 0 ] && silent
}

# The self-test makes queues and tries what is proven.
self_test() {
    gathers 2 mi300x --self-test && is "all(x['self_tested'] and x['engine'] == 'sdma' for x in g)" \
        "all(p['self_test'] == 'passed' for p in s['packets'] if p['name'] != 'timestamp')" "g[0]['advice'] == ''" &&
        [ "$(queues)" -ge 2 ] && [ "$(sent swap)" -gt 0 ] && silent
}

# The GPUs of eight that a device cgroup leaves.
hidden() {
    with EMU_HIDE=0,2,3,4,6,7 gathers 8 mi300x && is 'len(g) == 2' "d['runtime']['kernel_gpus'] == 2" "d['runtime']['kernel_hidden'] == 6" \
        "[x['sdma']['node'] for x in g] == [2, 6]" "any('may not be read' in m['what'] for m in d['missing'])" && [ "$(queues)" = 0 ]
}

all_hidden() {
    with EMU_HIDE=0,1 gathers 2 mi300x && is 'not g' "d['runtime']['name'] is None" "d['runtime']['why'] != ''" \
        "d['answer']['device_memory'].startswith('nobody')" "'may be read by this process' in d['runtime']['kernel_why']"
}

other_operation() {
    refuses 'takes allgather or alltoall, not: gather' "$root/with-build" --build "$build" "$info" --predict gather
}

# Without a GPU, or without a runtime that works, predictions for one are marked as assumptions.
no_gpus() {
    gathers 0 - && is 'not g' "d['runtime']['why'] != ''" "d['answer']['host_memory'] == 'processors'" 'd["open_mpi"]["component"]["loaded"]' \
        "d['host_memory']['memfd'] and d['host_memory']['arena_bytes'] == 33554432" 'd["job"] is None and d["prediction"] is None' &&
        gathers 0 - --predict all-to-all --memory device --in-place --ranks 8 --bytes 1M &&
        is "any('MI300X, on which all packets are proven' in a for a in d['prediction']['assumptions'])" \
            "d['prediction']['model'] == 'gpu' and d['prediction']['chosen'] in ('swap', 'halves')"
}

# ---- providers ----

wanted_provider() {
    with OMPI_MCA_coll_dma_queues=rocr gathers 1 mi300x && is "g[0]['engine'] == 'stream'" "not s['works']" \
        "'engine_refused' in reasons()" "provider('kfd')['usable']" "s['provider'] is None"
}

new_rocr() {
    with EMU_ROCR_MINOR=31 gathers 1 mi300x && is "s['provider'] == 'rocr'" "provider('rocr')['names_engines']" && [ "$(queues)" = 0 ]
}

old_kernel() {
    with EMU_KFD_MINOR=16 gathers 2 mi250x && is "not provider('kfd')['names_engines']" "g[0]['sdma']['links'][0]['engine'] is None" \
        "any('name their engine' in m['what'] for m in d['missing'])" &&
        with EMU_KFD_MINOR=16 gathers 1 mi308x && is "g[0]['engine'] == 'stream'" "'some are not there' in s['why']"
}

switched_off() {
    with HSA_ENABLE_SDMA=0 gathers 1 mi300x && is "g[0]['engine'] == 'stream'" "'HSA_ENABLE_SDMA=0' in s['why']" \
        "not any(p['usable'] for p in s['providers'])"
}

# The self-test finds a provider that refuses to make queues.
no_queues() {
    with EMU_FAIL_QUEUE_AFTER=0 gathers 1 mi300x && is "g[0]['engine'] == 'sdma'" &&
        with EMU_FAIL_QUEUE_AFTER=0 gathers 1 mi300x --self-test && is "g[0]['engine'] == 'stream' and g[0]['self_tested']" \
            "any('the engine sdma' in m['what'] for m in d['missing'])"
}

# A packet that is proven has another effect now.
spoilt() {
    with EMU_SPOIL_KINDS=swap gathers 1 mi300x --self-test && is "packet('swap')['self_test'] == 'failed' and not packet('swap')['used']" \
        "packet('broadcast')['used']" "'packet_failed' in reasons()" "'swap failed in the self-test' in g[0]['advice']"
}

other_engine() {
    with OMPI_MCA_coll_dma_engine=none gathers 1 mi300x && is "g[0]['engine'] is None and g[0]['engine_why'] == 'switched off'" \
        "'staged_no_engine' in reasons()" &&
        with OMPI_MCA_coll_dma_engine=stream gathers 1 mi300x --self-test && is "g[0]['engine'] == 'stream'" 'reasons() == []'
}

# ---- records ----

record=$work/record

# recorded ARGS...: a node with this record
recorded() {
    with "OMPI_MCA_coll_dma_record=$record" gathers 1 mi300x "$@"
}

make_record() {
    : >"$work/kernel"
    node 60 1 mi300x "$build/tools/accept/coll_dma_accept" --record "$record" --kernel-log "$work/kernel" --provider kfd --seconds 30 --packets-only
}

no_record() {
    rm -f "$record"
    recorded && is "packets('used') == ''" && recorded --self-test && is "d['record']['state'] == 'unusable'" "packets('used') == ''" "packets('has') != ''" "not s['recorded']" \
        "all(p['record'] == 'no record' for p in s['packets'])" "reasons() == ['packets_unrecorded']" "'plain copies' in g[0]['advice']" &&
        [ "$(sent swap)$(sent broadcast)" = 00 ] && [ "$(sent copy)" -gt 0 ]
}

a_record() {
    make_record && recorded --self-test && is "d['record']['state'] == 'valid' and d['record']['sections'] == 1" "s['recorded']" \
        "packets('used') == 'strides broadcast swap poll prelaunch'" "packet('swap')['record'] == 'proven'" 'reasons() == []' &&
        [ "$(sent swap)" -gt 0 ]
}

failed_in_record() {
    sed -i 's/^\( *swap *\).*/\1failed: hangs/; s/^\( *broadcast *\).*/\1not tried/' "$record"
    recorded && is "packet('swap')['record'] == 'failed' and packet('swap')['why'] == 'hangs'" "packet('broadcast')['record'] == 'not tried'" \
        "packets('used') == 'strides poll prelaunch'" "reasons() == ['packets_unrecorded', 'packet_failed']" \
        "'no variant bcst' in d['missing'][0]['cost']"
}

copies_failed() {
    sed -i 's/^\( *copy *\).*/\1failed: wrong data/' "$record"
    with OMPI_MCA_coll_dma_queues=kfd recorded && is "g[0]['engine'] == 'stream'" "'by its record copies failed: wrong data' in s['why']" \
        "'by its record copies failed' in provider('kfd')['why']"
}

stale_record() {
    sed -i 's/^\( *copy *\).*/\1proven/; s/^\( *firmware *\).*/\17777/' "$record"
    recorded && is "not s['recorded']" "'its firmware is' in s['record_why'] and '7777' in s['record_why']" "packets('used') == ''" \
        "'packets_unrecorded' in reasons()" "d['record']['state'] == 'valid'"
}

wrong_record() {
    echo 'something else' >"$record"
    recorded && is "d['record']['state'] == 'invalid'" "packets('used') == ''" && make_record_open
}

make_record_open() {
    chmod 666 "$record"
    recorded && is "d['record']['state'] == 'unusable'" "d['record']['why'] != ''" "packets('used') == ''"
}

# ---- the host ----

limits() {
    (ulimit -f 4096 && gathers 0 -) && is "d['host_memory']['limits']['file_bytes'] == 4194304" "d['host_memory']['arena_bytes'] <= 4194304" &&
        with OMPI_MCA_coll_dma_arena_bytes=0 gathers 0 - && is "not d['host_memory']['memfd']" "'arena_limit' in reasons()" \
        "any(p == {'name': 'arena_bytes', 'value': '0'} for p in d['parameters'])"
}

# The shim reads OMPI_COMM_WORLD_RANK; the variable does not make a job.
no_cross_memory() {
    OMPI_COMM_WORLD_RANK=0 DMA_BREAK_READ=0:1 LD_PRELOAD=$build/test/mpi/libbreak_shim.so gathers 0 - --predict alltoall --bytes 1M --memory host &&
        is "not d['host_memory']['cross_memory']" "'cross_refused' in reasons()" \
            "[v['reason'] for v in d['prediction']['variants'] if v['name'] == 'host_reach'] == ['not every pair of ranks can read each other\\'s memory']"
}

one_processor() {
    gathers 0 - && is "d['host_memory']['processors_usable'] > 1" &&
        (taskset -pc "$(taskset -pc $$ | sed 's/.*[:, -]\([0-9]*\)$/\1/')" $BASHPID >/dev/null && gathers 0 -) &&
        is "d['host_memory']['processors_usable'] == 1" "any('second processor' in m['what'] for m in d['missing'])"
}

# A file of Open MPI sets the parameter.
param_file() {
    echo 'coll_dma_variant = host_pipe' >"$work/params.conf"
    with "OMPI_MCA_mca_base_param_files=$work/params.conf" gathers 0 - --predict all-gather --bytes 512 --memory host --ranks 2 &&
        is "d['prediction']['chosen'] == 'host_pipe' and d['prediction']['forced'] == 'host_pipe'" \
            "{'name': 'variant', 'value': 'host_pipe'} in d['parameters']" &&
        with OMPI_MCA_coll_dma_variant=host_line gathers 0 - --predict all-gather --bytes 512 --memory host --ranks 2 &&
        is "d['prediction']['forced_reason'] and d['prediction']['chosen'] != 'host_line'"
}

not_found() {
    timeout 600 "$info" --json >"$work/json" && follows "$work/json" &&
        is "not d['open_mpi']['component']['loaded']" "'finds no mca_coll_dma.so' in d['open_mpi']['component']['why']" \
            "d['missing'][0]['cost'] == 'no collective is served'" &&
        mkdir -p "$work/bad" && echo 'not a library' >"$work/bad/mca_coll_dma.so" &&
        OMPI_MCA_mca_base_component_path=$work/bad timeout 600 "$info" --json >"$work/json" 2>/dev/null &&
        is "'cannot be loaded' in d['open_mpi']['component']['why']" &&
        with OMPI_MCA_coll=^dma gathers 0 - && is "d['missing'][0]['cost'] == 'no collective is served'" "'excludes' in d['answer']['host_memory']"
}

kinds() {
    gathers 0 - && is "ways('engines') == 'device'" "ways('host') == 'pageable pinned registered managed'" "ways('staged') == 'device-unknown'" \
        "ways('scratch') == 'device-fine device-pool device-vmm device-imported'"
}

# A bridge without a machine behind it, in a network of our own.
# shellcheck disable=SC2016
bridge() {
    if ! unshare --net ip link add br9 type bridge 2>/dev/null; then
        echo 'not tried: no bridges here'
        return 0
    fi
    unshare --net bash -c 'ip link set lo up; ip link add br9 type bridge; ip addr add 10.9.9.1/24 dev br9; ip link set br9 up
        exec timeout 600 "$0" --build "$1" "$2" --json' "$root/with-build" "$build" "$info" >"$work/json" || return 1
    is 'not d["ucx"]["usable"] or all(not x["used"] and "bridge" in x["why"] for x in d["ucx"]["devices"] if x["device"] == "br9")'
}

user_devices() {
    with UCX_NET_DEVICES=lo gathers 0 - && is "not d['ucx']['built'] or [x['device'] for x in d['ucx']['devices'] if x['used']] == ['lo']"
}

# ---- predictions ----

# runs RANKS MPIRUN-ARGS... -- RAN-ARGS...: the variants that a job runs, as lines in $work/ran
runs() {
    local ranks=$1 args=()
    shift
    while [ "$1" != -- ]; do
        args+=("$1")
        shift
    done
    shift
    timeout --kill-after=5 $((20 * patience)) "$root/with-build" --build "$build" mpirun --oversubscribe --bind-to none -n "$ranks" --mca coll dma \
        "${args[@]}" "$build/test/device/ran" "$@" >"$work/ran" || { cat "$work/ran"; return 1; }
}

# same WHERE RANKS OPERATION FORM BYTES...: the prediction for each size is what $work/ran says
same() {
    local where=$1 ranks=$2 operation=$3 form=$4 bytes ran
    shift 4
    for bytes; do
        ran=$(sed -n "s/^$operation $bytes //p" "$work/ran")
        "${predict[@]}" --predict "$operation" --ranks "$ranks" --bytes "$bytes" --memory "$where" ${form:+"$form"} || return 1
        echo "a job of $ranks ranks runs '$ran' for $operation of $bytes"
        [ -n "$ran" ] || return 1
        is "d['prediction']['chosen'] == '$ran'" || return 1
    done
}

host_sizes=(8 64 96 128 700 4096 16384 65536 262144 1048576)
# The measured costs differ from job to job, so built-in ones are used; and a profile with other constants.
host_runs() { # RANKS OPERATION
    predict=(gathers 0 -)
    runs "$1" "${@:3}" -- host "$2" out "${host_sizes[@]}" && same host "$1" "$2" '' "${host_sizes[@]}"
}

profile() { # other constants than the built-in ones
    awk -v FS='[(,]' '/^    X\(/ { print $2, $3 * ($2 == "step_ps" ? 40 : $2 ~ /^(slot|pull)_mbps/ ? 0.05 : 1) }' "$root/ompi_coll_dma/plan/profile.h" |
        sed 's/\..*//' >"$work/profile"
}

in_place() {
    predict=(gathers 0 -)
    runs 4 -- host alltoall in "${host_sizes[@]}" && same host 4 alltoall --in-place "${host_sizes[@]}"
}

# Under mpirun the tool measures nothing, and knows the ranks of the host.
in_a_job() {
    predict=(job_gathers 4)
    runs 4 -- host allgather out 64 65536 && same host 4 allgather '' 64 65536
}

device_sizes=(64 4096 65536 524288)
# device_runs PERSONA OPERATION FORM OPTION ENVIRONMENT...
device_runs() {
    local setting
    for setting in "${@:5}"; do
        local -x "${setting?}"
    done
    predict=(gathers 4 "$1")
    node 60 4 "$1" mpirun --oversubscribe --bind-to none -n 4 --mca coll dma "$build/test/device/ran" device "$2" "$3" "${device_sizes[@]}" \
        >"$work/ran" || return 1
    same device 4 "$2" "$4" "${device_sizes[@]}"
}

gpu_profile() { # in which broadcasts and long chains are cheap
    sed 's/^bcst_mbps .*/bcst_mbps 400000/; s/^doorbell_ps .*/doorbell_ps 90000000/; s/^chain_mbps .*/chain_mbps 1000000/' "$root/profiles/mi300x.txt" >"$work/gpu"
    device_runs mi300x allgather out '' "OMPI_MCA_coll_dma_gpu_profile=$work/gpu" &&
        gathers 4 mi300x --predict all-gather --bytes 4096 --profile "$work/gpu" && is "d['prediction']['chosen'] == '$(sed -n 's/^allgather 4096 //p' "$work/ran")'" \
        "any('$work/gpu' in a for a in d['prediction']['assumptions'])"
}

through_host() {
    with OMPI_MCA_coll_dma_engine=none gathers 2 mi300x --predict all-gather --bytes 4096 &&
        is "d['prediction']['model'] == 'host'" "any('goes through the host' in a for a in d['prediction']['assumptions'])"
}

over_nodes() {
    gathers 0 - --predict all-gather --nodes 4x8 --bytes 1K --memory host && is "d['prediction']['model'] == 'cluster'" \
        "d['prediction']['ranks'] == 32 and d['prediction']['nodes'] == 4" "min((v['microseconds'], i, v['name']) for i, v in enumerate(d['prediction']['variants']) if v['fits'])[2] == d['prediction']['chosen']" &&
        gathers 0 - --predict all-gather --nodes 3,4 --bytes 1K --memory host && is "any(v['reason'] == 'nodes have different numbers of ranks' for v in d['prediction']['variants'])"
}

# ---- jobs ----

# job_gathers RANKS [MPIRUN-ARGS... --] ARGS...: the document of a job
job_gathers() {
    local ranks=$1 args=()
    shift
    if [[ " $* " = *' -- '* ]]; then
        while [ "$1" != -- ]; do
            args+=("$1")
            shift
        done
        shift
    fi
    timeout --kill-after=5 $((20 * patience)) "$root/with-build" --build "$build" mpirun --oversubscribe --bind-to none -n "$ranks" --mca coll dma \
        "${args[@]}" "$info" --json "$@" >"$work/json" 2>"$work/err" || { cat "$work/err" "$work/json"; return 1; }
    follows "$work/json"
}

served() {
    job_gathers 4 -- && is "d['job']['served'] and d['job']['ranks'] == 4 and d['job']['differences'] == []" \
        "d['job']['hosts'][0]['ranks'] == '0 to 3' and d['job']['hosts'][0]['first_rank'] == 0"
}

unserved() {
    job_gathers 4 --mca coll_dma_arena_bytes 0 -- && is "d['job']['state'] == 'not served' and d['job']['reason'] == 'its limit is 0'" &&
        job_gathers 4 --mca coll_dma_priority -1 -- && is "not d['job']['served'] and d['job']['state'] == 'coll/dma does not have it'"
}

forced() {
    job_gathers 2 --mca coll_dma_variant host_pair -- && is "d['job']['variants'] == {'host': 'host_pair', 'device': 'auto', 'nodes': 'auto'}"
}

# Rank 1 of a job sees one GPU of two, and has another provider.
cat >"$work/rank" <<'RANK'
#!/bin/bash
if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then
    export ROCR_VISIBLE_DEVICES=1 OMPI_MCA_coll_dma_queues=rocr
fi
exec "$@"
RANK
chmod +x "$work/rank"
differ() {
    node 30 2 mi300x mpirun --oversubscribe --bind-to none -n 4 --mca coll dma "$work/rank" "$info" --json >"$work/json" &&
        follows "$work/json" &&
        is "sorted(x['what'] for x in d['job']['differences']) == ['GPUs', 'engines', 'packets used', 'parameters']" \
            "[v['ranks'] for v in d['job']['differences'][0]['values']] == ['0, 2 to 3', '1']" "d['job']['served']" && silent
}

# shellcheck disable=SC2016
hosts() {
    local output
    output=$("$root/test/bed/bed" 1 -- true 2>&1)
    [ $? != 77 ] || { echo "${output##*$'\n'}" && return 0; }
    OUT=$build/test/device/info.json INFO=$info timeout 1200 "$root/with-build" --build "$build" "$root/test/bed/bed" 2 -- bash -c \
        'mpirun -n 4 --map-by ppr:2:node --mca pml ob1 --mca coll dma "$INFO" --json >"$OUT"' || return 1
    cp "$build/test/device/info.json" "$work/json" && rm "$build/test/device/info.json" && follows "$work/json" &&
        is "[(h['name'], h['ranks'], h['first_rank']) for h in d['job']['hosts']] == [('h0', '0 to 1', 0), ('h1', '2 to 3', 2)]" "d['job']['served']"
}

# Ranks have different values of net_first_calls: those of rank 0 count.
# shellcheck disable=SC2016
first_calls_differ() {
    local output
    output=$("$root/test/bed/bed" 1 -- true 2>&1)
    [ $? != 77 ] || { echo "${output##*$'\n'}" && return 0; }
    OUT=$build/test/device/info.json INFO=$info timeout 1200 "$root/with-build" --build "$build" "$root/test/bed/bed" 2 -- bash -c \
        'mpirun --mca pml ob1 --mca coll dma -n 1 --host h0 "$INFO" --json : -n 1 --host h1 -x OMPI_MCA_coll_dma_net_first_calls=3 "$INFO" \
            --json >"$OUT"' || return 1
    cp "$build/test/device/info.json" "$work/json" && rm "$build/test/device/info.json" && follows "$work/json" &&
        is "[x['what'] for x in d['job']['differences']] == ['parameters']" "d['job']['served']"
}

# ---- the command ----

# fails STATUS PATTERN ARGS...
fails() {
    local status=0
    "$info" "${@:3}" >"$work/said" 2>&1 || status=$?
    cat "$work/said"
    [ $status = "$1" ] && grep -Eq -e "$2" "$work/said"
}

text() {
    node 20 2 mi308x "$info" --predict all-gather --bytes 64K >"$work/said" || return 1
    cat "$work/said"
    local pattern
    for pattern in '^coll_dma_info [0-9.]+ on ' '^  collectives in device memory are done by: GPU 0 sdma, GPU 1 sdma$' 'GPU 1: .*, gfx942, [0-9a-f:.]+, [0-9]+ GiB' \
        'listed, but fused off: 1, 3, 5, 7$' 'to GPU 1, xgmi: engine [0246] ' 'queues from kfd: usable, on engines by number; these are used' \
        'queues and packets: as of GPU 0$' '^Nothing is missing$' '^Prediction: all-gather of 64 KiB, 2 ranks on one node, in device memory$' 'us.*: chosen$'; do
        grep -Eq -e "$pattern" "$work/said" || { echo "not said: $pattern"; return 1; }
    done
}

ok 'MI300X' persona mi300x 4 "s['engines'] == 65535 and s['engines_absent'] == 0" "packets('used') == 'strides broadcast swap poll prelaunch'" \
    "g[0]['isa'] == 'gfx942' and g[0]['memory_bytes'] == 192 << 30" "g[0]['pci'] == '0000:0c:00.0'"
ok 'MI250X' persona mi250x 2 "packets('has') == 'timestamp strides broadcast poll prelaunch'" "s['engines'] == 31"
ok 'MI308X' persona mi308x 2 "s['engines'] == 0x55 and s['engines_absent'] == 0xaa"
ok 'MI100' persona mi100 2 "packets('has') == 'timestamp strides'"
ok 'the text' text
ok 'the self-test' self_test
ok 'some GPUs are hidden' hidden
ok 'all GPUs are hidden' all_hidden
ok 'no GPUs' no_gpus
ok 'a prediction of another operation is refused' other_operation
ok 'a provider that does not work is wanted' wanted_provider
! stands_at thunk || ok 'a new ROCr' new_rocr
ok 'an old kernel' old_kernel
ok 'HSA_ENABLE_SDMA=0' switched_off
ok 'no queues' no_queues
ok 'a spoilt packet' spoilt
ok 'another engine' other_engine
ok 'no record' no_record
ok 'a record' a_record
ok 'a record of failures' failed_in_record
ok 'a record in which copies failed' copies_failed
ok 'a stale record' stale_record
ok 'no record at all, and one that is not trusted' wrong_record
ok 'limits' limits
ok 'no cross memory' no_cross_memory
ok 'one processor' one_processor
ok 'a file of parameters' param_file
ok 'Open MPI does not have the component' not_found
ok 'kinds of memory' kinds
ok 'a bridge' bridge
ok 'devices that the user names' user_devices
export OMPI_MCA_coll_dma_measure=0
for operation in allgather alltoall; do
    for ranks in 2 4 7; do
        ok "predicted and run: $operation, host memory, $ranks ranks" host_runs $ranks $operation
    done
    profile
    ok "predicted and run: $operation, another profile" with "OMPI_MCA_coll_dma_profile=$work/profile" host_runs 4 $operation
done
ok 'predicted and run: small buffers' with OMPI_MCA_coll_dma_slot_bytes=512 host_runs 4 allgather
ok 'predicted and run: in place' in_place
ok 'predicted and run: in a job' in_a_job
ok 'predicted and run: allgather, device memory' device_runs mi300x allgather out ''
ok 'predicted and run: alltoall, device memory' device_runs mi300x alltoall out ''
ok 'predicted and run: alltoall in place, device memory' device_runs mi300x alltoall in --in-place
ok 'predicted and run: persistent' device_runs mi300x allgather persistent --persistent
ok 'predicted and run: persistent, not armed' device_runs mi300x alltoall persistent --persistent OMPI_MCA_coll_dma_prelaunch=0
ok 'predicted and run: without a record' device_runs mi300x allgather out '' OMPI_MCA_coll_dma_record=/nonexistent
ok 'predicted and run: the engine stream' device_runs mi300x allgather out '' OMPI_MCA_coll_dma_engine=stream
ok 'predicted and run: MI250X' device_runs mi250x allgather out ''
ok 'predicted and run: another profile of GPUs' gpu_profile
unset OMPI_MCA_coll_dma_measure
ok 'device memory through the host' through_host
ok 'several nodes' over_nodes
ok 'a job that is served' served
ok 'jobs that are not' unserved
ok 'a variant that is forced' forced
ok 'ranks that differ' differ
ok 'two hosts' hosts
ok 'two hosts with different numbers of first calls' first_calls_differ
ok 'help' says '^usage: coll_dma_info ' "$info" --help
ok 'version' says '^coll_dma_info \(coll/dma\) [0-9]' "$info" --version
ok 'no such option' fails 2 'unrecognized option' --gpus
ok 'no such operation' fails 2 'predict takes .*, not: broadcast' --predict broadcast
ok 'details without a prediction' fails 2 'need --predict' --bytes 64
ok 'a wrong size' fails 2 'bytes: 0' --predict all-gather --bytes 0
ok 'two layouts' fails 2 'exclude each other' --predict all-gather --nodes 2x2 --ranks 4
ok 'a wrong layout' fails 2 'nodes: 2x' --predict all-gather --nodes 2x
ok 'no such profile' fails 1 '/nonexistent' --predict all-gather --memory device --profile /nonexistent
finish
