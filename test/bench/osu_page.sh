#!/bin/bash
# osu_page.sh: examples/osu: build, with a tarball that makes programs which print what OSU's programs print, and compare,
# with these programs and a command in place of mpirun. With coll/dma the programs take half of the time. test/bench/beside_osu,
# with a program that prints what coll_dma_bench prints.
set -uo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=test/lib.sh
. "$root/test/lib.sh"
command -v python3 >/dev/null || skip 'there is no python3'
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

# The output of OSU's programs, once per job. The log has the order of the runs.
stub() {
    cat <<'END'
#!/bin/bash
name=${0##*/} header='Avg Latency(us)' fail=
case $name in osu_i*) header='Overall(us)         Compute(us)      Pure Comm.(us)          Overlap(%)' ;; esac
[ "${1:-}" != --version ] || { echo "# OSU MPI Test v7.4"; exit; }
side=$STUB_SIDE
echo "$name $side $*" >>"$STUB_LOG"
case " $* $name $side " in
*" -d rocm "*) echo 'Usage: osu [options]'; echo 'This benchmark was built without ROCm support' >&2; exit 1 ;;
*" osu_alltoallv dma "*) [ -z "${STUB_FAIL:-}" ] || fail=$STUB_FAIL ;;
esac
[ "$fail" != hang ] || sleep 100
[ "$fail" != crash ] || { printf 'buffer is not aligned\n  Exit code:    3\n' >&2; exit 3; }
[ "$fail" != slots ] || { echo 'There are not enough slots available in the system to satisfy the 2' >&2; exit 1; }
[ "$side" != dma ] || [ -n "${STUB_ASIDE:-}" ] || echo '[h:1] coll/dma: communicator MPI_COMM_WORLD (0): 4 ranks, ready' >&2
[ -z "${STUB_ASIDE:-}" ] || echo '[h:1] coll/dma: communicator MPI_COMM_WORLD (0): not served: no shared memory' >&2
case $name in osu_xccl_*) echo "${NCCL_DEBUG:+NCCL version 2.28.9+cuda13.0}" ;; esac
echo; echo "# OSU MPI Allgather Latency Test v7.4"; echo '# Datatype: MPI_CHAR.'
echo "# Size            $header$([[ " $* " != *' -c '* ]] || echo '          Validation')"
for size in 1 64 65536; do
    us=$((size / 64 + 4))
    [ "$side" = dma ] || us=$((2 * us))
    case $name in osu_i*) us="999.00 1.00 $us.00 50.00" ;; *) us=$us.00 ;; esac
    state=Pass
    [ "$fail" != wrong ] || state=Fail
    echo "$size        $us $([[ " $* " != *' -c '* ]] || echo "$state")"
done
END
}

# A tarball like OSU's: its configure makes a makefile, which makes the programs.
tarball() {
    local top=$work/osu-micro-benchmarks-7.4
    mkdir -p "$top/c/mpi/collective" "$top/c/xccl/collective"
    stub >"$top/stub"
    # shellcheck disable=SC2016
    printf '#!/bin/sh\nfor word; do case $word in --enable-broken) echo no broken; exit 1;; CC=*) echo "$word" >cc;; esac; done\n' >"$top/configure"
    chmod +x "$top/configure" "$top/stub"
    printf 'all:\n\tmkdir -p blocking non_blocking\n' >"$top/c/mpi/collective/Makefile"
    for name in allgather allgatherv alltoall alltoallv; do
        printf '\tcp ../../../stub blocking/osu_%s\n\tcp ../../../stub non_blocking/osu_i%s\n' $name $name >>"$top/c/mpi/collective/Makefile"
    done
    printf 'all:\n\tcp ../../../stub osu_xccl_allgather\n\tcp ../../../stub osu_xccl_alltoall\n' >"$top/c/xccl/collective/Makefile"
    tar czf "$work/osu.tar.gz" -C "$work" osu-micro-benchmarks-7.4
    rm -rf "$top"
}

# shellcheck disable=SC2016
mpirun_stub() {
    printf '%s\n' '#!/bin/bash' '[ "$1" != --version ] || { echo "mpirun (Open MPI) 4.1.4"; exit; }' 'while [ $# != 0 ]; do' \
        '    case $1 in -n) shift 2 ;; -x) export "$2"; shift 2 ;; --mca) [ "$2" != coll ] || STUB_SIDE=$3; shift 3 ;; *) break ;; esac' 'done' \
        '[ "${STUB_SIDE:-}" != ^dma ] || STUB_SIDE=stock' 'export STUB_SIDE=${STUB_SIDE:-}' 'exec "$@"' >"$work/mpirun"
    chmod +x "$work/mpirun"
}

builds() {
    CC=gcc MPICC=some-cc "$root/examples/osu/build" osu.tar.gz tree >out 2>&1 || { cat out; return 1; }
    cat out
    grep -q "examples/osu/compare $work/tree/osu-micro-benchmarks-7.4" out && grep -q 'CC=some-cc' tree/osu-micro-benchmarks-7.4/cc
}

other_tarball() {
    echo x >x
    tar czf x.tar.gz x
    refuses "is not a tarball of OSU's" "$root/examples/osu/build" x.tar.gz y
}

builds_nccl() {
    CC=gcc "$root/examples/osu/build" osu.tar.gz with-nccl --enable-ncclomb && grep -q 'CC=mpicc' with-nccl/osu-micro-benchmarks-7.4/cc && [ -x with-nccl/osu-micro-benchmarks-7.4/c/xccl/collective/osu_xccl_alltoall ] &&
        [ ! -e tree/osu-micro-benchmarks-7.4/c/xccl/collective/osu_xccl_alltoall ]
}

# compare ARGS...: in ./result, with the programs in $osu; the log is new
osu=tree
compare() {
    rm -rf result log
    STUB_LOG=$work/log timeout 600 "$root/examples/osu/compare" "$osu" --mpirun "$work/mpirun" -o result "$@" >out 2>&1
}

# The tree has no persistent ones: the status says that not everything was run.
compares() {
    compare -n 4 -p 5 -i 10
    [ $? = 1 ] || { cat out; return 1; }
    cat out
    [ "$(grep -c '^osu_[a-z]*  *0\.500$' out)" = 8 ] && grep -q '^osu_alltoall_persistent .*not run: there is no osu_alltoall_persistent in .*MPI 4' out &&
        grep -q 'take 0.50 of the time .* of 24 cells .* faster in 24, slower in 0, and 0 are' out
}

# Both sides are checked first. Then they run in turn, in an order that changes.
alternates() {
    diff <(grep '^osu_allgather ' log | sed 's/^osu_allgather //; s/-m 1:1048576 //') - <<'END'
dma -c -i 5 -x 1
stock -c -i 5 -x 1
dma -i 10
stock -i 10
stock -i 10
dma -i 10
dma -i 10
stock -i 10
stock -i 10
dma -i 10
dma -i 10
stock -i 10
END
}

# All passes; for non-blocking calls only the communication.
raw() {
    python3 - result/times.csv <<'END'
import csv, sys
rows = list(csv.DictReader(open(sys.argv[1])))
assert len(rows) == 5 * 8 * 2 * 3, len(rows)
assert {float(r["avg_us"]) for r in rows if r["bytes"] == "64" and r["mode"] == "dma"} == {5.0}
assert {float(r["avg_us"]) for r in rows if r["bytes"] == "64" and r["mode"] == "stock"} == {10.0}
END
}

# One file that needs no other. Its pictures are right XML. It has the answer, the numbers and the reasons.
page() {
    python3 - result <<'END'
import os, re, sys, xml.etree.ElementTree as tree
from html.parser import HTMLParser
text = open(sys.argv[1] + "/page.html", encoding="utf-8").read()
stack, void = [], {"meta", "link", "br", "img"}
class Check(HTMLParser):
    def handle_starttag(self, tag, attrs):
        assert tag not in ("script", "link", "img", "iframe"), tag
        assert all(name != "src" and not (name == "href" and not value.startswith("#")) for name, value in attrs), attrs
        if tag not in void:
            stack.append(tag)
    def handle_startendtag(self, tag, attrs):
        pass
    def handle_endtag(self, tag):
        assert stack.pop() == tag, tag
Check().feed(text)
assert not stack
pictures = re.findall(r"<svg.*?</svg>", text, re.S)
assert len(pictures) == 16, len(pictures)
for picture in pictures:
    tree.fromstring(picture)
assert "url(" not in text and "@import" not in text
assert max(len(line) for line in text.split("\n")) <= 512 # longer ones count as compiled from a source that is missing
assert "take 0.50 of the time" in text
assert 'href="#osu_iallgatherv">MPI_Iallgatherv</a>' in text and text.count('id="osu_iallgatherv"') == 1
assert re.search(r"<tr><td>64 K</td><td>1028</td><td>1028 – 1028</td><td>2056</td><td>2056 – 2056</td><td class=\"faster\">0.50</td>", text)
assert "<code>osu_allgather_persistent</code>: there is no osu_allgather_persistent in" in text
assert "4.1.4" in text and ">7.4<" in text
for name in os.listdir(sys.argv[1]):
    if name.endswith(".svg"):
        tree.parse(os.path.join(sys.argv[1], name))
assert len([n for n in os.listdir(sys.argv[1]) if n.endswith(".svg")]) == 8
END
}

tables() {
    grep -q '^| 64 | 5.00 | 5.00 | 5.00 | 10.0 | 10.0 | 10.0 | 0.500 | 0.500 | 0.500 |$' result/tables.md
}

all_run() {
    compare -p 1 --only osu_allgather,osu_ialltoall && grep 'Nothing: every program was run' result/page.html
}

undecided() {
    compare -p 4 --only osu_allgather && grep 'faster in 0, slower in 0, and 3 are not decided by 4 passes' out
}

# If something goes wrong on one side, a line says so, and the other sides are compared.
says_why() {
    local how=$1 pattern=$2
    shift 2
    STUB_FAIL=$how compare -p 1 --only osu_allgather,osu_alltoallv "$@"
    [ $? = 1 ] || { cat out; return 1; }
    cat out
    grep -Eq "^osu_alltoallv .*not run: dma.*$pattern" out && grep -Eq "<code>osu_alltoallv</code>: .*$pattern" result/page.html &&
        grep -q '^osu_allgather  *0.500$' out && ! grep -q '^[0-9]*,osu_alltoallv' result/times.csv
}

without_device() {
    compare -p 1 -d rocm
    [ $? = 1 ] && grep '^osu_allgather .*not run: dma, with -c: exit status 1: This benchmark was built without ROCm support' out &&
        grep 'Nothing could be measured' result/page.html
}

not_served() {
    STUB_ASIDE=1 compare -p 1 --only osu_allgather
    [ $? = 1 ] && grep 'class="warn">coll/dma has not served the communicator: coll/dma: communicator .*: not served' result/page.html
}

# OSU's programs for NCCL run without OSU's check, which they do not have, and with what mpirun gets for stock.
nccl() {
    osu=with-nccl compare -d cuda --rival nccl -p 5 -i 10 || { cat out; return 1; }
    cat out
    [ "$(grep -c '^osu_all[a-z]*  *0\.500$' out)" = 2 ] && grep -q 'take 0.50 of the time of NCCL, .* of 6 cells .* faster in 6, slower in 0' out &&
        grep -q '<h1>coll/dma beside NCCL</h1>' result/page.html && grep -q '>2.28.9+cuda13.0<' result/page.html && ! grep -qi 'stock' result/page.html &&
        [ "$(grep -c -- ' -c ' log)" = 2 ] && [ "$(grep -c '^osu_xccl_allgather stock -d cuda -m 1:1048576 -i 10$' log)" = 5 ] &&
        [ "$(grep -c '^osu_allgather dma -d cuda .*-c' log)" = 1 ]
}

without_nccl() {
    compare -d cuda --rival nccl -p 1
    [ $? = 1 ] && grep '^osu_alltoall .*not run: there is no osu_xccl_alltoall in tree: OSU builds it with --enable-ncclomb' out
}

# ---- beside_osu ----

# Bench takes 4, 20 and 2 % more than OSU.
bench_stub() {
    cat >bench <<'END'
#!/bin/bash
echo "bench $*" >>"$STUB_LOG"
[ -z "${STUB_FAIL:-}" ] || [ "$(grep -c ^bench "$STUB_LOG")" -lt "$STUB_FAIL" ] || exit 1
echo "# ${*: -1}: 2 ranks, dma"
case " $* " in *' i'*) echo '# Size           Overall(us)       Compute(us)    Pure Comm.(us)        Overlap(%)'; more='999.00 1.00' ;;
*) echo '# Size       Avg Latency(us)'; more= ;; esac
echo "1 $more 8.32 50.00"; echo "64 $more 12.00 50.00"; echo "65536 $more 2097.00 50.00"
END
    chmod +x bench
}

beside_osu() {
    rm -f log
    STUB_LOG=$work/log timeout 600 "$root/test/bench/beside_osu" tree --mpirun "$work/mpirun" --args '--mca coll ^dma' --bench "$work/bench" -o beside "$@"
}

beside() {
    beside_osu -p 3 -c allgather,ialltoall -d cuda || return 1
    cat beside.md
    [ "$(grep -c '^| 1 | 8.00 | 8.00-8.00 | 8.32 | 8.32-8.32 | 1.040 | 1.040 | 1.000 |$' beside.md)" = 2 ] && [ "$(wc -l <beside.csv)" = 37 ] &&
        grep -q '^- all: bench / OSU within 5 % in 4 of 6 cells, within 10 % in 4, median 1.040, 1.020 to 1.200; pass by pass within 5 % in 4; OSU beside itself within 5 % in 6;' beside.md &&
        diff <(grep -E 'allgather' log | cut -d' ' -f1) <(printf '%s\n' osu_allgather bench bench osu_allgather osu_allgather bench) &&
        grep -q '^bench -r none -V ialltoall -d cuda -m 1:1048576$' log
}

beside_seconds() {
    beside_osu -p 1000 -T 1 -c allgather && [ "$(wc -l <beside.csv)" -lt 6000 ]
}

# The first pass is in the table.
bench_fails() {
    STUB_FAIL=2 beside_osu -p 3 -c allgather 2>err
    [ $? = 2 ] && grep 'bench -r none .*: exit status 1' err && grep '^| 64 | 10.00 | 10.00-10.00 | 12.00 |' beside.md
}

tarball
mpirun_stub
bench_stub
ok 'OSU is built from its tarball' builds
ok 'another tarball is refused' other_tarball
ok 'no tarball is refused' refuses 'there is no .*none.tar.gz' "$root/examples/osu/build" none.tar.gz y
ok 'what configure says is shown' refuses 'no broken' "$root/examples/osu/build" osu.tar.gz z --enable-broken
ok 'with programs for NCCL' builds_nccl
ok 'all programs that there are are compared' compares
ok 'data are checked first, and the sides take turns' alternates
ok 'the raw times' raw
ok 'the page' page
ok 'the tables' tables
ok 'nothing is missing' all_run
ok 'few passes decide nothing' undecided
ok 'wrong data' says_why wrong 'wrong data, as OSU'
ok 'too few slots' says_why slots 'exit status 1: there are not enough slots.*--oversubscribe'
ok 'a crash' says_why crash 'exit status 3: buffer is not aligned'
ok 'a hang' says_why hang 'not finished after 10 s' --timeout 10
ok 'OSU without device memory' without_device
ok 'a communicator that coll/dma has not served' not_served
ok 'an unknown program is refused' refuses 'no such program: osu_bcast' "$root/examples/osu/compare" tree --only osu_bcast
ok 'a folder that is not there is refused' refuses 'is not a folder' "$root/examples/osu/compare" nowhere
ok 'beside NCCL' nccl
ok 'OSU without programs for NCCL' without_nccl
ok 'NCCL needs device memory' refuses 'rival nccl needs --device' "$root/examples/osu/compare" tree --rival nccl
ok 'bench beside OSU' beside
ok 'bench beside OSU ends in time' beside_seconds
ok 'a bench that fails at its second run' bench_fails
ok 'a program that OSU does not have' refuses 'there is no such program in tree' beside_osu -c allgather_persistent
finish
