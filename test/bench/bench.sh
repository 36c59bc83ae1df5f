#!/bin/bash
# bench.sh BUILD: coll_dma_bench with all operations and forms, in host memory and, on the emulated node, in device memory:
# what it prints and writes, that it notices wrong data, and that it says what it cannot do.
set -uo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "$1" && pwd)
# shellcheck source=test/lib.sh
. "$root/test/lib.sh"
[ ! -d "${DMA_SUITE_TMPDIR:-}" ] || export TMPDIR=$DMA_SUITE_TMPDIR
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bench=$build/tools/bench/coll_dma_bench
all=(allgather allgatherv alltoall alltoallv iallgather iallgatherv ialltoall ialltoallv allgather_persistent
    allgatherv_persistent alltoall_persistent alltoallv_persistent allgather_queue allgatherv_queue alltoall_queue
    alltoallv_queue)
few=(-m 64:4096 -F 64 -i 2 -x 1)
# The limits end only what hangs, however busy the machine is.
limit=(timeout --kill-after=5 300)

# job RANKS ARGS...: mpirun's own arguments and the program
job() {
    "${limit[@]}" "$root/with-build" --build "$build" "${node[@]}" mpirun --oversubscribe --bind-to none -n "$1" \
        --mca mpi_yield_when_idle 1 --mca coll dma "${@:2}"
}
node=()

# table FILE: its rows, each as OPERATION WORDS...
table() {
    awk '/^# [a-z_]*: [0-9]* ranks/ { sub(":", "", $2); operation = $2 } /^[0-9]/ { print operation, $0 }' "$1"
}

# complete FILE [OPERATION...]: each of them has a row for each of two sizes, and all data were right
complete() {
    local file=$1 want
    shift
    cat "$file"
    [ $# != 0 ] || set -- "${all[@]}"
    want=$(for operation; do printf '%s 64 Pass\n%s 4096 Pass\n' "$operation" "$operation"; done)
    diff <(table "$file" | sed 's/^\([^ ]* [0-9]*\) .*\(Pass\|Fail\).*/\1 \2/') <(echo "$want")
}

# ---- host memory ----

host() {
    job 3 "$bench" "${few[@]}" -r none "$@" all >"$work/out" && complete "$work/out"
}

# The format is OSU's: a line that begins with "# Size", then size and latency in two columns; for non-blocking calls, five
# columns.
osu_columns() {
    job 2 "$bench" "${few[@]}" -r none -V osu_allgather iallgather >"$work/out" || return 1
    cat "$work/out"
    diff <(grep '^# Size' "$work/out" | tr -s ' ') - <<<$'# Size Avg Latency(us)\n# Size Overall(us) Compute(us) Pure Comm.(us) Overlap(%)' &&
        [ "$(table "$work/out" | awk '{ print NF }' | sort | uniq -c | tr -s ' \n' ' ')" = ' 2 3 2 6 ' ] &&
        grep -q '^# coll_dma_bench MPI Allgather Latency Test v' "$work/out"
}

full_columns() {
    job 2 "$bench" "${few[@]}" -r none -f -V allgather >"$work/out" || return 1
    cat "$work/out"
    [ "$(grep '^# Size' "$work/out" | tr -s ' ')" = '# Size Avg Latency(us) Min Latency(us) Max Latency(us) Iterations' ] &&
        table "$work/out" | awk '!($4 <= $3 && $3 <= $5 && $6 == 2) { exit 1 }'
}

# The parts add up to the whole, and the overlap follows from them.
full_nonblocking() {
    job 2 "$bench" -m 65536 -i 20 -r none -f -V ialltoall >"$work/out" || return 1
    cat "$work/out"
    [ "$(grep '^# Size' "$work/out" | tr -s ' ')" = '# Size Overall(us) Compute(us) Coll. Init(us) MPI_Test(us) MPI_Wait(us) Pure Comm.(us) Min Comm.(us) Max Comm.(us) Overlap(%)' ] &&
        table "$work/out" | awk '
            function off(a, b) { return a > b ? a - b : b - a }
            { overlap = 100 - ($3 - $4) / $8 * 100; overlap = overlap < 0 ? 0 : overlap }
            off($3, $4 + $5 + $6 + $7) > 0.05 || off(overlap, $11) > 1 || $9 > $8 || $8 > $10 || $4 < $8 - 0.02 { exit 1 }'
}

# order PROGRAM ARGS...: its calls and barriers of a small and of a large size. Several barriers in a row count as one
order() {
    job 2 -x DMA_TEST_ORDER="$work/order" -x LD_PRELOAD="$build/test/bench/liborder_shim.so" "$@" >"$work/out" 2>&1 || { cat "$work/out"; return 1; }
    sed 's/BB*/B/g' "$work/order"
}

# like_osu NAME CALL FOLDER: 100 + 1000 calls up to 8 KiB, 10 + 100 above, a barrier after each; twice for non-blocking
# calls. OSU's own programs, if they are installed, do the same.
like_osu() {
    local loops=1 want ours
    case $1 in i*) loops=2 ;; esac
    want=B$(for ((i = 0; i < loops * 1210; i++)); do printf '%sB' "$2"; done)
    ours=$(order "$bench" -r none -V -m 8192:16384 "$1") || { echo "$ours"; return 1; }
    [ "$ours" = "$want" ] || { echo "${ours:0:200} ${#ours} characters, not ${#want}"; return 1; }
    [ -x "${DMA_OSU:-}/c/mpi/collective/$3/osu_$1" ] || return 0
    [ "$(order "$DMA_OSU/c/mpi/collective/$3/osu_$1" -m 8192:16384)" = "$want" ] || { echo "osu_$1: another order"; return 1; }
}

# Only stock Open MPI and the components that serve the form.
rivals() {
    job 2 "$bench" "${few[@]}" -p 3 allgather iallgather >"$work/out" || return 1
    cat "$work/out"
    grep '^# Size' "$work/out" | head -n 1 | grep 'stock(us) .*basic(us) .*tuned(us)' >/dev/null || return 1
    ! grep '^# Size' "$work/out" | head -n 1 | grep 'libnbc' >/dev/null || return 1
    grep '^# Size' "$work/out" | tail -n 1 | grep 'stock(us) .*libnbc(us)' >/dev/null &&
        grep '^# Geometric mean of the ratios: stock [0-9.]*.* libnbc [0-9.]*$' "$work/out" >/dev/null
}

# The calls of a rival do not go through coll/dma, and ours do. If coll/dma serves no communicator, the benchmark prints
# nothing about it.
kept_out() {
    local lines
    lines=$(job 2 --mca coll_dma_verbose 1 "$bench" "${few[@]}" -p 1 -r stock,tuned,basic allgather 2>&1 | grep -c 'coll/dma: communicator .* ready')
    echo "$lines communicators"
    [ "$lines" = 1 ]
}

without_component() {
    "${limit[@]}" "$root/with-build" --build "$build" mpirun --oversubscribe --bind-to none -n 2 --mca coll ^dma "$bench" "${few[@]}" \
        -r none allgather >"$work/out" || return 1
    cat "$work/out"
    grep -q '^# coll/dma is not in this job' "$work/out" && grep -q '^# allgather: 2 ranks, default' "$work/out"
}

# The file has the times of a rival in every pass, and the ratios, which follow from them.
files() {
    job 2 "$bench" "${few[@]}" -p 3 -r stock,nothing --csv "$work/a.csv" --json "$work/a.json" -s 50 allgatherv ialltoall \
        >"$work/out" || return 1
    python3 - "$work/a.csv" "$work/a.json" <<'END'
import csv, json, statistics, sys
rows = list(csv.DictReader(open(sys.argv[1])))
data = json.load(open(sys.argv[2]))
assert len(rows) == 3 * 2 * 2 * 3, len(rows)
assert {row["note"] for row in rows if row["operation"] == "allgatherv"} == {"skew 50"}
assert data["ranks"] == 2 and data["passes"] == 3 and data["validated"] is True, data
assert [(c["operation"], c["bytes"]) for c in data["cells"]] == [("allgatherv", 64), ("allgatherv", 4096), ("ialltoall", 64), ("ialltoall", 4096)]
for cell in data["cells"]:
    times = {}
    for side in cell["sides"]:
        times[side["name"]] = [float(row["avg_us"]) for row in rows if row["mode"] == side["name"] and
                               row["operation"] == cell["operation"] and int(row["bytes"]) == cell["bytes"]]
        assert side["data_right"] is True
        median = statistics.median(times[side["name"]])
        # four places in the CSV, six digits in the JSON
        assert abs(side["us"]["median"] - median) < 1e-4 + 1e-5 * median, (side, median)
        if side["name"] != "dma":
            pairs = list(zip(times["dma"], times[side["name"]]))
            low = statistics.median([(a - 1e-4) / (b + 1e-4) for a, b in pairs])
            high = statistics.median([(a + 1e-4) / max(b - 1e-4, 1e-9) for a, b in pairs])
            assert 0.9999 * low <= side["ratio"]["median"] <= 1.0001 * high, (side, pairs)
    assert list(times) == ["dma", "stock", "nothing"]
END
}

# The least time of seven passes, which a busy machine does not change; and the table has the medians. Its columns: operation,
# size, our time with its 5th and 95th percentile, and for each rival its time, the ratio, and the percentiles of the ratio.
true_times() {
    job 2 "$bench" -m 8 -i 200 -p 7 -r bare,nothing -V --csv "$work/true.csv" allgather >"$work/out" || return 1
    cat "$work/out" "$work/true.csv"
    awk -F, 'NR > 1 && (!($7 in least) || $8 + 0 < least[$7]) { least[$7] = $8 + 0 }
        END { exit !(least["nothing"] < least["dma"] && least["nothing"] < least["bare"]) }' "$work/true.csv" || return 1
    table "$work/out" | awk -v dma="$(median dma)" -v bare="$(median bare)" -v nothing="$(median nothing)" \
        -v to_bare="$(median_ratio bare)" -v to_nothing="$(median_ratio nothing)" '
        function differ(a, b) { return a - b > 0.006 + 0.01 * b || b - a > 0.006 + 0.01 * b }
        differ($3, dma) || differ($6, bare) || differ($10, nothing) || differ($7, to_bare) || differ($11, to_nothing) || $11 <= 1 { exit 1 }'
}

# median MODE: of the seven times in true.csv
median() {
    awk -F, -v mode="$1" '$7 == mode { print $8 }' "$work/true.csv" | sort -g | sed -n 4p
}

# median_ratio MODE: of our seven times to those of this mode
median_ratio() {
    awk -F, -v mode="$1" '$7 == "dma" { dma[$1] = $8 } $7 == mode { print dma[$1] / $8 }' "$work/true.csv" | sort -g | sed -n 4p
}

# slow CALL: average milliseconds of the slowest rank's calls if call number CALL of rank 1 takes 3 s more. The first call warms
# up, and three are timed.
slow() {
    DMA_BREAK=slow:1:$1 job 2 -x DMA_BREAK -x LD_PRELOAD="$build/test/mpi/libbreak_shim.so" "$bench" -m 64 -i 3 -x 1 -p 1 -r none -V -f \
        allgather 2>/dev/null | awk '/^64/ { printf "%d\n", $4 / 1000 }'
}

# A slow call counts by its share. Calls that warm up do not count.
timed_calls() {
    local first second
    first=$(slow 1) second=$(slow 2)
    echo "slow in the first call: $first ms, in the second: $second ms"
    [ "$first" -lt 600 ] && [ "$second" -ge 1000 ] && [ "$second" -lt 2000 ]
}

# The fifth call of a rank is checked.
wrong_data() {
    DMA_BREAK=data:1:5 job 2 -x DMA_BREAK -x LD_PRELOAD="$build/test/mpi/libbreak_shim.so" "$bench" -m 64 -i 3 -x 1 -p 1 -r none \
        --json "$work/wrong.json" allgather >"$work/out" 2>&1
    [ $? = 1 ] || { cat "$work/out"; return 1; }
    cat "$work/out"
    grep -q 'rank 1: dma: allgather: wrong data: byte 63 of the block of rank 1 is' "$work/out" &&
        grep -q '^64 .* Fail' "$work/out" && grep -q '"data_right": false' "$work/wrong.json"
}

# ... of a large block too, of which not all bytes are compared; and what lies behind the buffer, and in the gaps of a type
wrong_where() {
    local mode=$1
    shift
    DMA_BREAK=$mode:1:5 job 2 -x DMA_BREAK -x LD_PRELOAD="$build/test/mpi/libbreak_shim.so" "$bench" -i 3 -x 1 -p 1 -r none "$@" \
        allgather >"$work/out" 2>&1
    [ $? = 1 ] || { cat "$work/out"; return 1; }
}

plots() {
    local type
    mkdir -p "$work/bin"
    # shellcheck disable=SC2016
    printf '#!/bin/sh\n[ "$1" = --version ] || cat >>%s/gnuplot.log\n' "$work" >"$work/bin/gnuplot"
    chmod +x "$work/bin/gnuplot"
    PATH=$work/bin:$PATH job 2 -x PATH "$bench" "${few[@]}" -p 2 -r stock --plot "$work/stub.svg" allgather alltoall >"$work/out" || return 1
    cat "$work/gnuplot.log"
    [ ! -e "$work/stub.svg" ] && grep -q '^# Warning: 2 passes decide nothing' "$work/out" || return 1
    grep -q "set output '$work/stub-alltoall.svg'" "$work/gnuplot.log" && grep -q "title 'stock'" "$work/gnuplot.log" || return 1
    command -v gnuplot >/dev/null || { echo 'gnuplot is not installed'; return; }
    for type in svg png; do
        job 2 "$bench" "${few[@]}" -p 2 -r stock --plot "$work/plot.$type" allgather >"$work/out" || return 1
        file_is "$type" "$work/plot.$type" || return 1
    done
}

file_is() {
    case $1 in
    svg) grep -q '<svg' "$2" && grep -q '</svg>' "$2" ;;
    png) head -c 4 "$2" | grep -a PNG >/dev/null ;;
    esac
}

# A program that cannot be started has the same result as none.
no_gnuplot() {
    mkdir -p "$work/poor"
    printf '#!/bin/sh\nexit 127\n' >"$work/poor/gnuplot"
    chmod +x "$work/poor/gnuplot"
    PATH=$work/poor:$PATH refuses 'plot .*gnuplot is not installed' job 2 -x PATH "$bench" "${few[@]}" --plot "$work/none.svg" allgather
}

progress() {
    job 2 "$bench" -m 64 -i 10 -p 100000 -T 3 -r none --progress allgather 2>&1 >/dev/null | grep '^\[#* *\]  *[0-9]* %, [0-9]* s, [0-9]* s to go'
}

# script makes a terminal. The standard error of a rank is a pipe nevertheless.
progress_at_terminal() {
    script -qec "$root/with-build --build $build mpirun --oversubscribe --bind-to none -n 2 --mca coll dma $bench -m 64 -i 10 -p 100000 -T 3 -r none allgather" \
        /dev/null </dev/null >"$work/out"
    grep -a 's to go' "$work/out" >/dev/null && tr '\r' '\n' <"$work/out" | grep -a '^64  .*Pass' >/dev/null
}

quiet_at_terminal() {
    script -qec "$root/with-build --build $build mpirun --oversubscribe --bind-to none -n 2 --mca coll dma $bench -m 64 -i 10 -p 100000 -T 3 -r none --quiet allgather" \
        /dev/null </dev/null >"$work/out"
    ! grep -a 's to go' "$work/out" && grep -a '^64  .*Pass' "$work/out" >/dev/null
}

no_progress() {
    ! job 2 "$bench" -m 64 -p 100000 -T 3 -r none allgather 2>&1 | grep -a 's to go' >/dev/null
}

no_energy() {
    [ -e /sys/class/powercap/intel-rapl:0 ] || {
        refuses 'energy: this host has no counters of energy' job 1 "$bench" -e -m 64 allgather
        return
    }
    job 2 "$bench" "${few[@]}" -m 64 -e -W 1 -r none allgather >"$work/out" 2>&1 || grep 'cannot be read' "$work/out"
}

# Counters that advance by 100 W, and begin again at 0 after 4 s, replace the host's, in a namespace of our own.
energy() {
    cat >"$work/counters" <<'END'
mount -t tmpfs none /sys/class && mkdir -p /sys/class/powercap/intel-rapl:0 /sys/class/powercap/intel-rapl:0:0 || exit 9
cd /sys/class/powercap/intel-rapl:0 || exit 9
echo 400000000 >max_energy_range_uj
mkfifo never || exit 9
exec 9<>never
# No process is started and the file is never empty; it runs before others, so that it is seldom late.
tick() {
    renice -n -20 $BASHPID >/dev/null
    while :; do
        printf '%09d\n' $((${EPOCHREALTIME/[.,]/} * 100 % 400000000)) 1<>energy_uj
        read -rt 0.02 -u 9
    done
}
echo 000000000 >energy_uj
tick &
trap "kill $!" EXIT
"$@"
END
    "${limit[@]}" unshare -m bash "$work/counters" "$root/with-build" --build "$build" mpirun --oversubscribe --bind-to none -n 2 \
        --mca mpi_yield_when_idle 1 --mca coll dma "$bench" -m 64 -i 5 -p 1 -r stock -e -W 2 --json "$work/e.json" allgather >"$work/out" 2>&1 ||
        { cat "$work/out"; return 1; }
    cat "$work/out"
    energy_table 100
}

# energy_table WATTS: so much is subtracted; of both sides there are median, least, most and nanojoules for a byte, and they agree
# with each other and with the JSON.
energy_table() {
    awk -v watts="$1" '
        /^# Energy/ { energy = $3 > 0.8 * watts && $3 < 1.2 * watts }
        /^allgather / {
            rows++
            for (i = 3; i + 3 <= NF; i += 4) {
                sides++
                byte = $i / ($2 * 2) * 1e9
                if ($(i + 1) > $i || $i > $(i + 2) || $(i + 3) < byte - 0.02 * (byte < 0 ? -byte : byte) || $(i + 3) > byte + 0.02 * (byte < 0 ? -byte : byte))
                    wrong++
            }
        }
        END { exit !(energy && rows == 1 && sides == 2 && !wrong) }' "$work/out" &&
        python3 - "$work/e.json" <<'END'
import json, sys
sides = json.load(open(sys.argv[1]))["cells"][0]["sides"]
assert len(sides) == 2
for side in sides:
    assert side["joules_least"] <= side["joules"] <= side["joules_most"], side
    assert abs(side["nanojoules_per_byte"] * 2 * 64 * 1e-9 - side["joules"]) <= 1e-4 * abs(side["joules"]), side
END
}

# energy_of LIBRARY: counters of GPUs by AMD's library of this name. One window of each kind, because the medians of several are
# those of the host's counters, and in a window both ranks compute for 3 s. The window without calls is two reads and one at the
# beginning; from then on a GPU takes three times its power, so a call takes energy.
energy_of() {
    rm -rf "$work/smi"
    mkdir "$work/smi" && ln -s "$build/test/bench/libfake_smi.so" "$work/smi/$1" || return 1
    FAKE_SMI_BUSY=3 LD_LIBRARY_PATH=$work/smi:${LD_LIBRARY_PATH:-} job 2 -x FAKE_SMI_BUSY -x LD_LIBRARY_PATH "$bench" -d rocm -m 64 -i 5 \
        -p 1 -r stock -e -W 1 --json "$work/e.json" allgather >"$work/out" 2>&1 || { cat "$work/out"; return 1; }
    cat "$work/out"
    energy_table 150 && awk '/^allgather / { exit !($3 > 0 && $4 > 0 && $7 > 0) }' "$work/out"
}

# The comparison of runs reads the output of the benchmark.
compares() {
    (cd "$work" && "$root/with-build" --build "$build" "$root/test/bench/compare" -p 1 -n 2 -c allgather,ialltoall,alltoall_persistent \
        --bench-args '-m 4:64 -F 16 -i 5' --rival 'tuned=--mca coll ^dma' >"$work/out" 2>&1)
    [ -s "$work/compare.csv" ] || { cat "$work/out"; return 1; }
    cat "$work/compare.csv"
    [ "$(wc -l <"$work/compare.csv")" = 13 ] && grep -q '^| ialltoall | 2 | 64 | [0-9.]* | [0-9.]* |' "$work/compare.md"
}

for args in '' '-I' '-t vector -s 30' '-t indexed -s 100 -I'; do
    # shellcheck disable=SC2086
    ok "all operations, ${args:-plain}: data are right" host $args
done
ok "OSU's columns" osu_columns
ok "OSU's columns with -f" full_columns
ok "OSU's columns with -f of non-blocking operations" full_nonblocking
ok "OSU's calls and barriers" like_osu allgather C blocking
ok "OSU's calls and barriers, v" like_osu alltoallv C blocking
ok "OSU's calls and barriers, non-blocking" like_osu iallgather CW non_blocking
ok 'rivals are the components that serve the form' rivals
ok 'coll/dma is kept out of the communicators of rivals' kept_out
ok 'without coll/dma it says so' without_component
ok 'a loop without calls takes less than calls' true_times
ok 'calls that warm up are not timed, others are' timed_calls
ok 'a wrong byte is noticed' wrong_data
ok 'a wrong byte at the end of a block of 4 MiB is noticed' wrong_where data -m 4194304
ok 'a byte behind the buffer is noticed' wrong_where after -m 64
ok 'a byte in a gap is noticed' wrong_where gap -m 64 -t indexed
ok 'a byte in a gap is noticed, regular type' wrong_where gap -m 128 -t vector
ok 'blocks in the wrong order are noticed' wrong_where order -m 64
ok 'a plot of each operation' plots
ok 'without gnuplot, a plot is refused before anything is measured' no_gnuplot
ok 'progress in lines' progress
ok 'no progress bar without a terminal' no_progress
if command -v script >/dev/null; then
    ok 'a progress bar if mpirun is at a terminal' progress_at_terminal
    ok 'none there with --quiet' quiet_at_terminal
fi
ok 'energy is measured or refused' no_energy
if unshare -m mount -t tmpfs none /sys/class 2>/dev/null; then
    ok 'energy of counters' energy
fi
if command -v python3 >/dev/null; then
    ok 'CSV and JSON agree' files
    ok 'runs are compared' compares
fi
ok 'help' says '^usage: mpirun .*coll_dma_bench' "$bench" --help
ok 'version' says '^coll_dma_bench [0-9]' "$bench" --version
for args in '-m 0' '-m 8:4' '-m 4x' '-F 1' '-W 3:2' '-W 0' '-i 0' '-k 0' '-p 0' '-T 0' '-s 101' '-t x' '-d x' '--plot x.pdf' '-z' bcast; do
    # shellcheck disable=SC2086
    ok "refused: $args" refuses '--help' "$bench" $args
done
ok 'an unknown rival is refused' refuses 'there is no rival nonsense here' job 1 "$bench" -r nonsense
ok 'a component that is not there is refused' refuses 'the component hcoll is not in this job' job 1 "$bench" -r hcoll
ok 'a load needs device memory' refuses 'load needs --device' job 1 "$bench" -l "$build/test/bench/libfake_load.so"
ok 'a load that is not there is refused' refuses 'none.so: cannot open' job 1 "$bench" -l none.so
ok 'NCCL needs device memory' refuses 'nccl needs --device' job 1 "$bench" -n libnccl.so

# ---- device memory ----

device() {
    job 2 "$bench" -d rocm "${few[@]}" -r none "$@" >"$work/out" && complete "$work/out" "${@: -1}"
}

# Engines copy all data: their packets show it.
all_device() {
    mkdir -p "$work/stats"
    EMU_STATS=$work/stats job 2 "$bench" -d rocm "${few[@]}" -r none "$@" all >"$work/out" && complete "$work/out" &&
        grep -h '^sdma.*packet' "$work"/stats/* | grep copy >/dev/null
}

nccl() {
    job 2 "$bench" -d rocm "${few[@]}" -p 2 -r nccl,stock -n "$build/test/bench/libfake_nccl.so" "$@" allgather alltoall >"$work/out" 2>&1 || {
        cat "$work/out"
        return 1
    }
    complete "$work/out" allgather alltoall && grep -q '^# nccl-sym is left out: there is no ncclMemAlloc' "$work/out" &&
        grep -q '^# Size.*nccl(us)' "$work/out"
}

# Open MPI's own components would end the process in memory that they do not know.
no_stock() {
    refuses 'stock: Open MPI has no support for this device memory' job 2 -x LD_PRELOAD="$build/test/bench/librocm_shim.so" "$bench" \
        -d rocm "${few[@]}" -r stock allgather &&
        says '^# stock and components are left out: Open MPI has no support' job 2 -x LD_PRELOAD="$build/test/bench/librocm_shim.so" \
            "$bench" -d rocm "${few[@]}" -V allgather
}

stock_unknown() {
    job 2 "$bench" -d rocm "${few[@]}" -p 1 allgather >"$work/out" 2>&1 || { cat "$work/out"; return 1; }
    cat "$work/out"
    grep -q '^# stock and components are left out: Open MPI' "$work/out" && ! grep -q 'stock(us)' "$work/out"
}

loaded() {
    job 2 "$bench" -d rocm -m 64 -i 2000 -r none -l "$build/test/bench/libfake_load.so" allgather >"$work/out" 2>&1 || { cat "$work/out"; return 1; }
    cat "$work/out"
    awk '/^# Load: [0-9.]* products a second on rank 0/ { right = $3 > 500 && $3 < 1500 } END { exit !right }' "$work/out"
}

nccl_in_place() {
    job 2 "$bench" -d rocm "${few[@]}" -p 1 -r nccl -n "$build/test/bench/libfake_nccl.so" -I allgather >"$work/out" 2>&1 &&
        complete "$work/out" allgather
}

nccl_wrong() {
    DMA_FAKE_NCCL=wrong job 2 -x DMA_FAKE_NCCL "$bench" -d rocm "${few[@]}" -p 1 -r nccl -n "$build/test/bench/libfake_nccl.so" allgather \
        >"$work/out" 2>&1
    [ $? = 1 ] && grep 'rank 0: nccl: allgather: wrong data' "$work/out"
}

if [ -e "$build/test/emu/libnode.so" ]; then
    node=(--gpus 2 --persona mi300x)
    ok 'device memory: all operations' all_device
    ok 'device memory: in place, a regular type' all_device -I -t vector
    ok 'device memory: an irregular type and a skew' device -t indexed -s 50 alltoallv
    ok 'stock Open MPI is no rival in memory that it does not know' stock_unknown
    ok '... and refused where it says so' no_stock
    ok 'NCCL beside it' nccl
    ok 'NCCL in place' nccl_in_place
    ok "NCCL's wrong data are noticed" nccl_wrong
    ok 'a load runs meanwhile' loaded
    ok 'energy of GPUs without a library is refused' refuses 'energy: .*libnvidia-ml.*libamd_smi.*librocm_smi64' job 2 "$bench" -d rocm \
        -e "${few[@]}"
    ok 'energy of GPUs by AMD SMI' energy_of libamd_smi.so
    ok 'energy of GPUs by ROCm SMI' energy_of librocm_smi64.so
    node=()
    ok 'without a GPU, device memory is refused' refuses 'device rocm: ' job 1 "$bench" -d rocm "${few[@]}"
else
    echo 'not tested: device memory, because there is no emulated node'
fi
finish
