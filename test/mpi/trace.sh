#!/bin/bash
# trace.sh: traces of jobs on cores, on an emulated node and over hosts. What coll_dma_trace makes of them follows the rules
# of the format, the phases of a call add up to its time, and files of jobs that ended badly can be read. Runs inside
# ./with-build.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
# shellcheck source=test/lib.sh
. "$root/test/lib.sh"
build=$(cd "$DMA_TEST_BIN/../.." && pwd)
[ ! -d "${DMA_SUITE_TMPDIR:-}" ] || export TMPDIR=$DMA_SUITE_TMPDIR
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
command -v python3 >/dev/null || skip 'python3 is not installed'
trace=$build/tools/trace/coll_dma_trace
timed=$build/test/mpi/timed
# Each host has a /tmp of its own.
work=$(mktemp -d "$build/test/mpi/trace.XXXXXX")
trap 'rm -rf "$work"' EXIT
limit=1000

# job RANKS ARGS...: with a trace in $work/t; its output is in $work/out
job() {
    local ranks=$1
    shift
    rm -rf "$work/t"
    timeout --kill-after=5 $limit mpirun --oversubscribe --bind-to none -n "$ranks" --mca mpi_yield_when_idle 1 --mca coll dma \
        --mca coll_dma_trace "${folder:-$work/t}" "$@" >"$work/out" 2>&1
}

# chrome ARGS...: the output for a trace viewer follows the rules of the format
chrome() {
    "$trace" --chrome "$work/t.json" "$work/t" >"$work/table" || return 1
    cat "$work/table"
    "$root/test/chrome_trace.py" "$work/t.json" "$@"
}

# row PATTERN: the table has such a line
row() {
    grep -Eq -e "$1" "$work/table" || { echo "no line $1"; return 1; }
}

# one_of_tries COMMAND...: a busy machine may hold a process back between two looks at the clock, but not in all tries
one_of_tries() {
    local try
    for try in 1 2 3 4 5; do
        "$@" && return
        echo "try $try has failed"
    done
    return 1
}

# ---- cores ----

# The ranks say that they have spent as much time as the trace says.
spent_as_traced() {
    job 4 "$timed" 40 "$1" && chrome --ranks 4 --spent "$work/out" 2>&1
}

# Calls of 64 bytes are too short to compare their times.
cores() {
    local bytes
    for bytes in 64 8192 200000; do
        { job 4 "$timed" 40 $bytes && chrome --ranks 4; } || { cat "$work/out"; return 1; }
        [ $bytes = 64 ] || one_of_tries spent_as_traced $bytes || return 1
        row "^all-gather +cores +host_[a-z]+ +4 +$bytes +160 " || return 1
    done
}

# In the phases of large blocks there are copies, and the sums of the table are right.
adds_up() {
    python3 - "$work/table" <<'END'
import sys
rows = [line.split() for line in open(sys.argv[1]) if line.startswith("all-")]
assert rows, "no rows"
for r in rows:
    time, phases = float(r[6]), [float(x) for x in r[7:11]]
    assert abs(sum(phases) - time) <= 0.05 * time + 0.05, r
    assert phases[2] > 0 and phases[0] > 0, r
END
}

# Calls that are posted before the set-up has ended are not traced.
nonblocking() {
    job 3 "$timed" 30 5000 nonblocking || { cat "$work/out"; return 1; }
    chrome --ranks 3 && row '^all-gather +cores +host_slot +3 +5000 +3(4[89]|5[0-9]|60) ' && grep -q 'calls 2"' "$work/t.json"
}

# A killed rank leaves what it has written. The calls of the others that have not ended are counted.
killed() {
    ! job 3 "$timed" 40 1000 die || return 1
    chrome --ranks 3 && row '^all-gather .* 1000 +6[0-9] '
}

# A file that cannot be read is refused. A file that ends at any place is not.
damaged() {
    local file size
    job 2 "$timed" 40 1000 && mkdir "$work/d" && file=$(find "$work/t" -name '*.0.trace') && size=$(stat -c %s "$file") || return 1
    for cut in 4096 4100 5000 $((size - 8)); do
        head -c "$cut" "$file" >"$work/d/a.trace"
        "$trace" "$work/d" >/dev/null || return 1
    done
    head -c 100 "$file" >"$work/d/a.trace"
    refuses 'is not a trace' "$trace" "$work/d" || return 1
    head -c 300000 /dev/urandom >"$work/d/a.trace"
    refuses 'is not a trace' "$trace" "$work/d" || return 1
    { head -c 4096 "$file" && head -c 300000 /dev/urandom; } >"$work/d/a.trace"
    "$trace" --chrome "$work/d/json" "$work/d" >/dev/null && refuses 'there is no trace' "$trace" "$build/config"
}

# Whatever is in a file, the tool ends, and takes memory in proportion to the file.
mutated() {
    "$root/test/mutate_trace.py" "$trace" -n 300 -s 1
}

# The same with the sanitizers, which notice mistakes that by luck have no effect.
sanitized() {
    ${CC:-gcc} -g -O1 -fsanitize=address,undefined -fno-sanitize-recover=all -D'DMA_VERSION="0"' -I "$root" -I "$root/include" \
        -I "$root/ompi_coll_dma" "$root"/tools/trace/*.c -o "$work/sanitized" -lm || return 1
    ASAN_OPTIONS=max_allocation_size_mb=64 "$root/test/mutate_trace.py" "$work/sanitized" -n 300 -s 2 --address-space 0
}

# A mebibyte holds 32768 events. A call has at least four.
full() {
    job 2 --mca coll_dma_trace_bytes 1M "$timed" 12000 8 || { cat "$work/out"; return 1; }
    chrome --ranks 2 && row 'events are missing, for which there was no room' &&
        [ "$(find "$work/t" -size +1028k | wc -l)" = 0 ]
}

no_folder() {
    folder=$work/no/where job 2 "$timed" 10 64 || { cat "$work/out"; return 1; }
    grep 'nothing is traced: mkdir in .*/no/where: No such file' "$work/out" && grep -q '^rank 1 spent' "$work/out"
}

# late_rank_of CALLS MS: rank 1 is late in every tenth call, for so long
late_rank_of() {
    job 4 "$timed" "$1" 4096 late "$2" || { cat "$work/out"; return 1; }
    "$trace" --ranks "$work/t" | tee "$work/table" &&
        awk '$2 != "host" && NF == 9 && $4 ~ /^[0-9]/ { ranks++; late[$1] = $5; waited[$1] = $6 }
            END { for (r in late) if (r != 1 && (late[r] >= late[1] || waited[r] >= waited[1])) exit 1; exit !(ranks == 4 && waited[1] > 400) }' "$work/table"
}

# One rank is late in every tenth call, which means over all calls hide. On a busy machine others are late for as long. Then
# it is late for longer than a busy machine makes anybody.
late_rank() {
    local try
    late_rank_of 200 30 && return
    for try in 1 2 3; do
        echo "once more, $try"
        late_rank_of 40 2000 && return
    done
    return 1
}

json() {
    job 2 "$timed" 40 1000 && "$trace" --json "$work/t" >"$work/json" &&
        "$root/test/json_schema.py" "$root/tools/trace/trace.schema.json" "$work/json" && grep -q '"calls":80' "$work/json"
}

plot() {
    if command -v gnuplot >/dev/null; then
        "$trace" --plot "$work/plot.svg" "$work/t" && grep -q '</svg>' "$work/plot.svg" && grep -q synchronise "$work/plot.svg"
    else
        refuses 'gnuplot is not installed' "$trace" --plot "$work/plot.svg" "$work/t"
    fi
}

# ---- an emulated node ----

# gpus ARGS...: a job on the node
gpus() {
    rm -rf "$work/t"
    "$root/with-build" --build "$build" --gpus 3 timeout --kill-after=5 $limit mpirun --oversubscribe --bind-to none -n 3 \
        --mca mpi_yield_when_idle 1 --mca coll dma --mca coll_dma_trace "$work/t" "$@" "$build/test/emu/collective" >"$work/out" 2>&1 ||
        { cat "$work/out"; return 1; }
    grep -q 'data right' "$work/out"
}

engine() {
    gpus --mca coll_dma_engine sdma --mca coll_dma_record all && chrome --ranks 3 --engine && row '^all-to-all +engine +pcpy +3 ' &&
        adds_up && awk '$2 == "engine" && $9 > 0 { n++ } END { exit n < 3 }' "$work/table"
}

# Without a proof of the timestamp packet there are no times of the engine.
unproven() {
    gpus --mca coll_dma_engine sdma --mca coll_dma_record /nowhere && chrome --ranks 3 && row '^all-gather +engine +pcpy' &&
        ! grep -q ': engine"' "$work/t.json" && awk '$2 == "engine" && $9 > 0 { exit 1 }' "$work/table"
}

# Times by events of HIP: the stream wakes up after the submission, and the bars lie inside the calls.
streams() {
    gpus --mca coll_dma_engine stream --mca coll_dma_trace_stamps all && chrome --ranks 3 --engine &&
        row '^all-to-all +engine +[a-z0-9]+ +3 ' && adds_up && awk '$2 == "engine" && $9 > 0 { n++ } END { exit n < 3 }' "$work/table" &&
        ! grep -q '^Of .* count' "$work/table"
}

# Without that, some calls have such times; how many depends on how long calls take. Of every other call they are taken out of the
# files, and the table is about the others alone.
paced_streams() {
    rm -rf "$work/t"
    "$root/with-build" --build "$build" --gpus 2 timeout --kill-after=5 $limit mpirun --oversubscribe --bind-to none -n 2 \
        --mca mpi_yield_when_idle 1 --mca coll dma --mca coll_dma_trace "$work/t" --mca coll_dma_engine stream \
        "$build/tools/bench/coll_dma_bench" -d rocm -r none -m 512:512 -i 300 -x 10 -p 1 allgather >"$work/out" 2>&1 || { cat "$work/out"; return 1; }
    chrome --ranks 2 --engine && adds_up || return 1
    python3 - "$work/t" <<'END' || return 1
import glob, struct, sys
COMMAND, STAMP, EARLY = 8, 11, 16
for path in glob.glob(sys.argv[1] + "/*.trace"):
    data = bytearray(open(path, "rb").read())
    at = struct.unpack_from("<Q3iI", data)[4]
    for i in range(at, len(data) - 31, 32):
        kind, seq = data[i + 8], struct.unpack_from("<I", data, i + 12)[0]
        if kind in (STAMP, EARLY) and seq % 2:
            data[i + 8] = COMMAND
    open(path, "wb").write(data)
END
    chrome --ranks 2 --engine && adds_up && "$trace" --json "$work/t" >"$work/json" && grep -q '^Of .* count' "$work/table" &&
        "$root/test/json_schema.py" "$root/tools/trace/trace.schema.json" "$work/json" && python3 - "$work/json" <<'END'
import json, sys
rows = [r for r in json.load(open(sys.argv[1]))["rows"] if r["by"] == "engine"]
assert all(1 <= r["counted"] <= r["calls"] / 2 + 1 for r in rows), rows
END
}

# slow_engine_of US: each packet of rank 1 takes up to so much longer
slow_engine_of() {
    local collective=$build/test/emu/collective
    rm -rf "$work/t"
    "$root/with-build" --build "$build" --gpus 3 timeout --kill-after=5 $limit mpirun --oversubscribe --bind-to none \
        --mca mpi_yield_when_idle 1 --mca coll dma --mca coll_dma_trace "$work/t" --mca coll_dma_engine sdma --mca coll_dma_record all \
        -n 1 "$collective" : -n 1 -x EMU_DELAY_US="$1" "$collective" : -n 1 "$collective" >"$work/out" 2>&1 || { cat "$work/out"; return 1; }
    "$trace" --ranks "$work/t" | tee "$work/table" &&
        awk '$2 != "host" && NF >= 9 && /^ / { time[$1] = $8 + $9 } END { exit !(time[1] > 2 * time[0] && time[1] > 2 * time[2]) }' "$work/table"
}

# Programs of one rank are held back by its engine: its copies take longest. On a busy machine others take as long. Then it is held
# back for longer than a busy machine holds back anybody.
slow_engine() {
    slow_engine_of 20000 || { echo 'once more' && slow_engine_of 60000; }
}

# ---- hosts ----

# slow_link_of PERMILLE: of the frames to one host are lost
slow_link_of() {
    rm -rf "$work/t"
    # shellcheck disable=SC2016 # for the inner shell
    "$root/test/bed/bed" 3 -d 200 -t 1000 -- bash -c '"$0" h2 loss "$1"; "${@:2}"' "$root/test/bed/bed-ctl" "$1" mpirun -n 6 --map-by ppr:2:node \
        --mca pml ob1 --mca coll dma --mca coll_dma_net_first_calls 0 --mca coll_dma_trace "$work/t" "$timed" 200 20000 >"$work/out" 2>&1 || { cat "$work/out"; return 1; }
    "$trace" --ranks "$work/t" | tee "$work/table" &&
        awk '$2 ~ /^h[0-9]/ { slow[$2] += $12 } END { exit !(slow["h2"] > slow["h0"] && slow["h2"] > slow["h1"]) }' "$work/table"
}

# Messages to its ranks are slow most often. On a busy machine others are slow as often. Then more is lost.
slow_link() {
    slow_link_of 100 || { echo 'once more' && slow_link_of 200; }
}

# A job, and what its trace says
three_hosts() {
    rm -rf "$work/t"
    "$root/test/bed/bed" 3 -d 200 -t 1000 -- mpirun -n 6 --map-by ppr:2:node --mca pml ob1 --mca coll dma --mca coll_dma_net_first_calls 0 \
        --mca coll_dma_trace "$work/t" "$timed" 30 20000 >"$work/out" 2>&1 || { cat "$work/out"; return 1; }
    chrome --ranks 6 --ordered && row '^all-gather +network +cluster_[a-z]+ +6 +20000 +180 ' && adds_up
}

hosts_spent_as_traced() {
    three_hosts && chrome --ranks 6 --spent "$work/out" --ordered 2>&1
}

over_hosts() {
    three_hosts && { chrome --ranks 6 --spent "$work/out" --ordered || one_of_tries hosts_spent_as_traced; }
}

# The clocks of hosts h1 and h2 become hours apart.
shift_clocks() {
    python3 - "$work/t" <<'END'
import glob, struct, sys
for path in glob.glob(sys.argv[1] + "/*.trace"):
    data = bytearray(open(path, "rb").read())
    host = bytes(data[96:160]).split(b"\0")[0].decode()
    number = int(host[1:])
    if not number:
        continue
    shift = number * 3_600_000_000_000 + 123
    data[160:160 + len(host)] = host.encode()  # its clock's name begins with it
    struct.pack_into("<Q", data, 24, struct.unpack_from("<Q", data, 24)[0] + shift)
    for at in range(4096, len(data) - 31, 32):
        kind = data[at + 8]
        if kind == 2 or not kind:
            continue
        spans = {7: (24,), 9: (16,), 12: (24,), 13: (24,), 14: (24,), 17: (16,)}.get(kind, ())
        for offset in (0, *spans):
            struct.pack_into("<Q", data, at + offset, (struct.unpack_from("<Q", data, at + offset)[0] + shift) % 2**64)
    open(path, "wb").write(data)
END
}

# The error of the clocks is below 50 ms: what the quickest message takes.
clocks_known() {
    "$trace" "$work/t" 2>&1 >/dev/null | tee /dev/stderr | awk '/is known to/ { n++; if ($9 <= 0 || $9 > 50000) exit 1 } END { exit n != 2 }'
}

another_job_with_other_clocks() {
    three_hosts && shift_clocks && chrome --ranks 6 --ordered && clocks_known
}

# The same with other clocks: the tool finds their offset.
other_clocks() {
    shift_clocks && chrome --ranks 6 --spent "$work/out" --ordered && { clocks_known || one_of_tries another_job_with_other_clocks; }
}

if [ $# -gt 0 ]; then
    for name; do ok "$name" "$name"; done
    finish
    exit
fi
ok 'four ranks on cores' cores
ok 'their phases add up' adds_up
ok 'calls that overlap' nonblocking
ok 'a rank that is killed' killed
ok 'damaged files' damaged
ok 'files damaged on purpose' mutated
if echo 'int main(void) { return 0; }' | ${CC:-gcc} -fsanitize=address,undefined -x c - -o "$work/try" 2>/dev/null; then
    ok 'files damaged on purpose, with sanitizers' sanitized
else
    echo 'not checked: sanitizers, because the compiler has none'
fi
ok 'a rank that is late now and then' late_rank
ok 'no room for more' full
ok 'no folder' no_folder
ok 'JSON follows its schema' json
ok 'a plot' plot
ok 'a plot needs a name' refuses 'not a name for a plot' "$trace" --plot "a'b" "$work/t"
if [ -e "$build/test/emu/collective" ]; then
    ok 'an engine with its own clock' engine
    ok 'an engine whose clock is not proven' unproven
    ok 'streams' streams
    ok 'paced times of streams' paced_streams
    ok 'an engine that is slow' slow_engine
else
    echo 'not checked: engines, because this machine cannot emulate a node'
fi
if output=$("$root/test/bed/bed" 1 -- true 2>&1); then
    ok 'a link that loses data' slow_link
    ok 'three hosts' over_hosts
    ok 'three hosts with other clocks' other_clocks
else
    echo "not checked: several hosts: ${output##*$'\n'}"
fi
ok 'help' says '^usage: coll_dma_trace ' "$trace" --help
ok '--ranks has no JSON' refuses 'has no JSON' "$trace" --ranks --json "$work"
ok 'which directory' refuses 'which directory' "$trace"
finish
