#!/bin/bash
# accept.sh [BUILD]: coll_dma_accept on emulated nodes: what it prints and records if everything works, and if each packet
# fails, hangs or faults. Also: jobs use what a record proves, and send no other packets.
set -uo pipefail
# shellcheck source=test/device/common.sh
. "$(dirname "$0")/common.sh"
accept=$build/tools/accept/coll_dma_accept
collective=$build/test/emu/collective
record=$work/etc/record
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_coll=dma # of jobs within a job
: >"$work/kernel"
export TMPDIR=$work # what a killed command leaves

# accept GPUS PERSONA STATUS ARGS...: it ends with this status; its output is in $work/said
accept() {
    local status=0
    node 60 "$1" "$2" "$accept" --record "$record" --kernel-log "$work/kernel" "${@:4}" >"$work/said" 2>&1 || status=$?
    cat "$work/said"
    [ $status = "$3" ] || { echo "status $status"; return 1; }
}

# said PATTERN...: each of them matches a line of the output
said() {
    local pattern
    for pattern; do
        grep -Eq -e "$pattern" "$work/said" || { echo "not said: $pattern"; return 1; }
    done
}

# results: of the record, as "copy:proven timestamp:proven strides:failed ...", a line for each section
results() {
    awk '$1 == "section" { line = "" }
        $1 ~ /^(copy|timestamp|strides|broadcast|swap|poll|prelaunch)$/ { sub(":$", "", $2); line = line " " $1 ":" $2 }
        $1 == "end" { print substr(line, 2) }' "$record"
}

# recorded RESULTS: each section of the record has these results
recorded() {
    results
    [ "$(results | sort -u)" = "$1" ]
}

# with NAME=VALUE CMD...: in this environment
with() {
    local -x "$1"
    "${@:2}"
}

all='copy:proven timestamp:proven strides:proven broadcast:proven swap:proven poll:proven prelaunch:proven'
quick=(--provider kfd --seconds 30 --packets-only --packet 0)
limit=2 # the time in which a GPU that may hang must answer
jobs=(--provider kfd --seconds 30 --repeat 1 --largest 0 --jobs 0 --packet 0)
run='mpirun --oversubscribe --bind-to none'

# ---- the command ----

whole() {
    accept 3 mi300x 0 --seconds 30 --packets-only --packet 0 --report "$work/report" && said '^link +GPU 2 to GPU 0, kfd: ok' '^prelaunch +GPU 1, kfd: ok' '^prelaunch +GPU 2, rocr: ok' &&
        recorded "$all" && [ "$(grep -c '^ *provider' "$record")" = 2 ] && diff "$work/said" "$work/report" && silent
}

# other PERSONA RESULTS PATTERN: a machine that lacks something
other() {
    rm -f "$record"
    accept 2 "$1" 0 "${quick[@]}" && said "$3" && recorded "$2" && silent
}

# fails_within SECONDS GPUS STATUS RESULTS PATTERN...
fails_within() {
    rm -f "$record"
    accept "$2" mi300x "$3" --provider kfd --seconds "$1" --packets-only --packet 0 && said "${@:5}" && recorded "$4"
}

# fails GPUS STATUS RESULTS PATTERN...: the record and the output if something goes wrong. On a busy machine a GPU that works
# may take longer than $limit, too. Then it gets more time.
fails() {
    fails_within $limit "$@" || fails_within 30 "$@"
}

# Nothing is known about a GPU that gives no queue, so nothing is recorded.
without_queues() {
    rm -f "$record"
    accept 1 mi300x 1 "${quick[@]}" && said '^queues .*kfd: no queue is free on the engine' 'works on no GPU' && [ -z "$(results)" ]
}

# kernel_speaks_beside DELAY: packets begin up to DELAY us late
kernel_speaks_beside() {
    local -x EMU_DELAY_US=$1
    rm -f "$record" "$work/report"
    {
        until grep -q '^strides' "$work/report" 2>/dev/null; do sleep 0.01; done
        printf '%s\n' '6,17,1,-;usb 1-1: reset high-speed device' '4,18,1,-;amdgpu 0000:0c:00.0: amdgpu: GPU reset begin!'
    } >>"$work/kernel" &
    accept 1 mi300x 1 "${quick[@]}" --report "$work/report"
    local status=$?
    wait
    [ $status = 0 ] && said 'FAILED: kernel: amdgpu 0000:0c:00.0: amdgpu: GPU reset begin!' 'after that .*ok' &&
        [ "$(grep -c FAILED "$work/said")" = 1 ] && grep -q 'failed: kernel: amdgpu' "$record"
}

# The kernel reports a reset while the packets are tried. Then a check fails, even if the data are right. On a busy machine
# the report may come behind the last check. Then there are slower ones.
kernel_speaks() {
    kernel_speaks_beside 0 || kernel_speaks_beside 20000 || kernel_speaks_beside 500000
}

# If the node goes down with a packet, the record says with which.
# shellcheck disable=SC2016 # for the inner shell
goes_down() {
    rm -f "$record"
    with EMU_HANG_KINDS=swap node 60 1 mi300x bash -c '
        "$@" &
        until grep -q "swap .*its trial has not ended" "$0" 2>/dev/null; do sleep 0.01; done
        kill -9 $!' "$record" "$accept" --record "$record" --kernel-log "$work/kernel" "${quick[@]}"
    recorded 'copy:proven timestamp:proven strides:proven broadcast:proven swap:failed poll:not prelaunch:not'
}

# The driver recommends an engine that does not reach other GPUs.
link_fails() {
    rm -f "$record"
    # shellcheck disable=SC2016 # for the inner shell
    node 60 2 mi300x bash -c 'sed -i "s/\(recommended_sdma_engine_id_mask\) .*/\1 1/" "$EMU_SYSFS"/nodes/*/io_links/*/properties && "$@"' \
        bash "$accept" --record "$record" --kernel-log "$work/kernel" "${quick[@]}" >"$work/said" 2>&1
    cat "$work/said"
    said '^copy .*ok' '^link +GPU 0 to GPU 1, kfd: FAILED: .* \(to GPU 1, engine 0\)' &&
        recorded 'copy:failed timestamp:not strides:not broadcast:not swap:not poll:not prelaunch:not'
}

# Sections of other nodes stay, and the own section is replaced.
merges() {
    rm -f "$record"
    accept 1 mi300x 0 "${quick[@]}" || return 1
    sed 's/^ *host .*/    host       elsewhere/; s/swap .*/swap       failed: hangs/' "$record" >"$work/other"
    tail -n +2 "$work/other" >>"$record"
    sed -n '/^section/,$p' "$work/other" | sed 's/firmware .*/firmware   1/' >>"$record"
    with EMU_SPOIL_KINDS=rect accept 1 mi300x 1 "${quick[@]}" && results &&
        [ "$(results | tr '\n' ';')" = "${all/swap:proven/swap:failed};${all/swap:proven/swap:failed};${all/strides:proven/strides:failed};" ]
}

# refuses_record TEXT PATTERN: a file that is not a record is not overwritten
refuses_record() {
    printf '%s\n' "$1" >"$record"
    accept 1 mi300x 2 "${quick[@]}" && said "$2" && [ "$(cat "$record")" = "$1" ]
}

# large_packets LARGEST PATTERN...: packets that jobs do not use; whatever comes of them, the record and the status are the same
large_packets() {
    rm -f "$record"
    accept 2 mi300x 0 "${quick[@]}" --packet "$1" && said "${@:2}" && recorded "$all" && ! said '^[0-9]+ MiB +GPU 1'
}

# ---- its jobs ----

# With one provider, because each takes as long.
collectives() {
    rm -f "$record"
    accept 3 mi300x 0 --gpus 0,2 --provider kfd --seconds 30 --mpirun "$run" --repeat 2 --jobs 3 --largest 1024 --packet 0 || return 1
    for name in pcpy b2b bcst swap halves types armed revoked killed 'behind it' neighbour holds full times; do
        said "^$name +2 ranks, kfd: ok" || return 1
    done
    said '^link +GPU 2 to GPU 0, kfd: ok' '^An all-gather of 65536 bytes takes [0-9.]+ us, and [0-9.]+ us beside programs that wait' \
        '^times,bcst,persistent,1,allgather,2,1024,[0-9.]+,1,0,2$' '^times,pcpy,blocking,0,alltoall,2,1024,[0-9.]+,2,2,3$' &&
        recorded "$all" && [ "$(grep -c '^times,[a-z]' "$work/said")" = 15 ] && ! said 'GPU 1, kfd|GPU 0 to GPU 1' && silent &&
        [ "$(cat "$work"/stats/* | awk '/^queue .* owner mca_coll_dma/ { print $4 }' | sort -u | tr '\n' ' ')" = '0 2 ' ]
}

# wrapped SCRIPT STATUS RESULTS PATTERN...: with a script in place of mpirun, which ends with STATUS; $* are its arguments
wrapped() {
    rm -f "$record"
    printf '#!/bin/bash\n%s\nexec %s "$@"\n' "$1" "$run" >"$work/mpirun"
    chmod +x "$work/mpirun"
    accept 2 mi300x "$2" "${jobs[@]}" --mpirun "$work/mpirun" && said "${@:4}" && recorded "$3"
}

# An mpirun that starts nothing: it prints what a job would print, or, for a job whose arguments match $FAILS, what a failing
# job prints.
cat >"$work/said-by-jobs" <<'MPIRUN'
#!/bin/bash
case " $* " in
*" hold "*)
    echo 'accept: rank 0 holds'
    while [ -e "${!#}" ]; do sleep 0.01; done
    ;;
esac
held=$(find "$TMPDIR/.." -maxdepth 1 -name 'coll_dma_accept.hold.*')
if [[ -n ${FAILS:-} && " $* ${held:+beside }" =~ $FAILS ]]; then
    [[ " $* " != *" die "* ]] || exit 0
    echo 'accept: rank 1: wrong data: byte 0 of 4 from rank 0 is 1, not 2'
    exit 1
fi
[[ " $* " != *" die "* ]] || kill -9 $$
for device in 0 1; do
    echo "device $device is served by the engine sdma: queues from kfd, broadcast, swap, conditional execution"
done
[[ " $* " != *" time "* ]] || echo 'accept: time blocking allgather 65536 7.00'
echo 'accept: data right'
MPIRUN
chmod +x "$work/said-by-jobs"

# Failures that show only in jobs, each in a job of its own: a packet, an engine, and the kernel's log when a job is killed.
jobs_fail() {
    # shellcheck disable=SC2016 # for the script
    wrapped 'case " $* " in
        *" swap "* | *" halves "*) export EMU_SPOIL_KINDS=swap ;;
        *" types "*) export EMU_FAULT_PACKET=20 ;;
        *" die "*) echo "4,18,1,-;amdgpu: preemption failed" >>'"$work/kernel"' ;;
        *" again "* | *" pcpy "* | *" b2b "*) exec '"$work/said-by-jobs"' "$@" ;;
        esac' 1 'copy:proven timestamp:proven strides:failed broadcast:proven swap:failed poll:proven prelaunch:failed' \
        '^bcst .*ok' '^swap +2 ranks, kfd: FAILED: swap failed in the self-test \(wrong data\)' \
        '^types +2 ranks, kfd: FAILED: .*GPU faulted at address' '^after that GPU 1, kfd: ok' '^revoked .*ok' \
        '^killed +2 ranks, kfd: FAILED: kernel: amdgpu: preemption failed' && ! said '^halves'
}

# The engine of a rank fails. The line of that rank is quoted, although a line of a peer comes before it.
engine_fails() {
    # shellcheck disable=SC2016 # for the script
    wrapped 'case " $* " in
        *" types "*)
            echo "coll/dma: another rank of MPI_COMM_WORLD (0) has failed: a peer has failed"
            echo "coll/dma: the engine sdma of MPI_COMM_WORLD (0) has failed: queue 1 stands still"
            exit 1
            ;;
        esac
        exec '"$work/said-by-jobs"' "$@"' 1 "${all/strides:proven/strides:failed}" \
        '^types +2 ranks, kfd: FAILED: the engine sdma of MPI_COMM_WORLD \(0\) has failed: queue 1 stands still'
}

# If the node goes down with a job whose programs wait, the record says so.
# shellcheck disable=SC2016 # for the script
job_goes_down() {
    wrapped 'case " $* " in *" die "*) kill -9 $PPID; exit ;; esac
        exec '"$work/said-by-jobs"' "$@"' 137 "${all/prelaunch:proven/prelaunch:failed}" '^revoked .*ok' &&
        grep -q '^ *prelaunch *failed: its jobs have not ended' "$record"
}

job_hangs() {
    # shellcheck disable=SC2016 # for the script
    local jobs=("${jobs[@]}" --job-seconds 20)
    wrapped 'case " $* " in *" pcpy "*) sleep 1000 ;; esac
        exec '"$work/said-by-jobs"' "$@"' 1 "${all/copy:proven/copy:failed}" \
        '^pcpy +2 ranks, kfd: FAILED: hangs'
}

# fails_alone CHECK FEATURE PATTERN: jobs with these arguments fail, and that switches the feature off
fails_alone() {
    local -x FAILS=$3
    rm -f "$record"
    accept 2 mi300x 1 "${jobs[@]}" --jobs 2 --largest 1024 --mpirun "$work/said-by-jobs" >"$work/out"
    said "^$1 +2 ranks, kfd: FAILED: (wrong data: byte 0 of 4|it has not ended by a signal)" && recorded "${all/$2:proven/$2:failed}"
}

# mpirun has one slot for two ranks. The first job fails, and no other one is made.
# shellcheck disable=SC2016 # for the script
slots() {
    rm -f "$record"
    echo 'localhost slots=1' >"$work/hosts"
    printf '#!/bin/bash\ncase " $* " in *" start "*) exec mpirun "$@" ;; esac\nexit 1\n' >"$work/mpirun"
    chmod +x "$work/mpirun"
    accept 2 mi300x 1 "${jobs[@]}" --mpirun "$work/mpirun --hostfile $work/hosts --bind-to none" && said '^pcpy .*FAILED'
}

# A job stage that cannot begin is one line, however much mpirun says.
page() {
    # shellcheck disable=SC2016 # for the script
    wrapped 'printf "%s\n" ------ "" "There are no slots." "More text." ------; exit 1' 1 "$all" \
        '^collectives, kfd: not tried: mpirun does not run .*: There are no slots.$' &&
        ! said 'More text|what the job said'
}

# ---- jobs of users ----

# features: packets that our queues got, other than copies and fences
features() {
    local kind n
    for kind in rect broadcast swap poll cond-exe atomic write fill timestamp; do
        n=$(packets $kind)
        [ "$n" = 0 ] || printf '%s ' $kind
    done
}

# uses FEATURES RECORD PATTERN ARGS...: a job with the record has right data, uses these packets, and prints this
uses() {
    local wanted=$1 file=$2 pattern=$3
    shift 3
    job 60 2 mi300x 2 --mca coll_dma_record "$file" --mca coll_dma_queues kfd --mca coll_dma_verbose 1 "$@" >"$work/said" 2>&1 ||
        { cat "$work/said"; return 1; }
    cat "$work/said"
    echo "packets: $(features)"
    [ "$(features)" = "$wanted" ] && [ "$(packets copy)" -gt 0 ] && silent && if [ -n "$pattern" ]; then
        said "$pattern"
    else
        ! grep 'plain copies only\|is not used' "$work/said"
    fi
}

# Two ranks with records of their own: all use what both may use, or no rank uses it.
two_records() {
    node 60 2 mi300x mpirun --oversubscribe --bind-to none --mca coll_dma_queues kfd --mca coll_dma_verbose 2 \
        -n 1 -x OMPI_MCA_coll_dma_record="$1" "$collective" : -n 1 -x OMPI_MCA_coll_dma_record="$2" "$collective" \
        >"$work/said" 2>&1 || { cat "$work/said"; return 1; }
    cat "$work/said"
    said '^collective: data right$' 'queues from kfd, on engines by number, broadcast, swap, conditional execution$' \
        'device . is served by the engine sdma: queues from kfd, on engines by number, waits by the CPU$' && silent
}

# The packet that hangs is in no queue. Otherwise the job would end after a minute with an error.
hangs_here() {
    fails 2 1 "${all/swap:proven/swap:failed}" '^swap +GPU 0, kfd: FAILED: hangs' &&
        uses 'rect broadcast poll cond-exe ' "$record" 'swap is not used: it failed: hangs' --mca coll_dma_timeout 60 "$collective"
}

! stands_at thunk || ok 'all GPUs, all providers' with EMU_ROCR_MINOR=31 whole
ok 'MI100, whose POLLs may end early' other mi100 \
    'copy:proven timestamp:proven strides:proven broadcast:not swap:not poll:not prelaunch:not' 'poll .*not used on GPUs of this generation'
ok 'MI308X, on engines that are there' other mi308x "$all" '^link +GPU 0 to GPU 1, kfd: ok'
ok 'packets do something else' with EMU_SPOIL_KINDS=rect,broadcast,swap,cond-exe fails 2 1 \
    'copy:proven timestamp:proven strides:failed broadcast:failed swap:failed poll:proven prelaunch:failed' \
    '^strides +GPU 0, kfd: FAILED: wrong data' '^broadcast +GPU 1, kfd: FAILED: wrong data' '^swap +GPU 1, kfd: FAILED: wrong data' \
    '^prelaunch +GPU 1, kfd: FAILED: the condition is not obeyed' '^after that GPU 1, kfd: ok'
ok 'packets hang' with EMU_HANG_KINDS=rect,broadcast,swap,cond-exe fails 2 1 \
    'copy:proven timestamp:proven strides:failed broadcast:failed swap:failed poll:proven prelaunch:failed' \
    '^strides +GPU 0, kfd: FAILED: hangs' '^broadcast +GPU 0, kfd: FAILED: hangs' '^swap +GPU 0, kfd: FAILED: hangs' \
    '^prelaunch +GPU 0, kfd: FAILED: hangs' '^after that GPU 0, kfd: ok' '^strides +GPU 1, kfd: not tried: it has hung'
ok 'a POLL ends early' with EMU_SPOIL_KINDS=poll fails 1 1 "${all/poll:proven prelaunch:proven/poll:failed prelaunch:not}" \
    '^poll .*FAILED: a POLL ends before its word has the value' '^prelaunch .*not tried: it needs poll'
ok 'a POLL ends early now and then' with EMU_EARLY_POLLS=20 fails 1 1 \
    "${all/poll:proven prelaunch:proven/poll:failed prelaunch:not}" '^poll .*FAILED: a POLL ends before its word has the value'
ok 'a packet faults' with EMU_FAULT_KINDS=broadcast fails 2 1 "${all/broadcast:proven/broadcast:failed}" \
    '^broadcast +GPU 0, kfd: FAILED: the GPU faulted at address' '^after that GPU 0, kfd: ok' '^broadcast +GPU 1, kfd: not tried'
ok 'copies do something else' with EMU_SPOIL_KINDS=copy fails 1 1 \
    'copy:failed timestamp:not strides:not broadcast:not swap:not poll:not prelaunch:not' '^copy .*FAILED: wrong data' 'works on no GPU'
ok 'copies hang' with EMU_HANG_KINDS=copy fails 2 1 \
    'copy:failed timestamp:not strides:not broadcast:not swap:not poll:not prelaunch:not' '^copy +GPU 0.*FAILED: hangs' '^copy +GPU 1.*not tried'
ok 'a hang stays behind' with limit=1 with EMU_HANGS_STAY=1 with EMU_HANG_KINDS=swap fails 2 3 \
    'copy:proven timestamp:proven strides:proven broadcast:proven swap:failed poll:not prelaunch:not' '^after that GPU 0, kfd: FAILED: hangs' '^Stopped'
ok 'a link fails' link_fails
ok 'large packets' large_packets 268435456 '^256 MiB +GPU 0, kfd: ok' '^0 checks failed'
ok 'large packets hang' with EMU_HANG_BYTES=268435456 large_packets 1073741824 '^256 MiB +GPU 0, kfd: FAILED: hangs' \
    '^No job is affected' '^after that GPU 0, kfd: ok' '^0 checks failed'
ok 'no queues' with EMU_FAIL_QUEUE_AFTER=0 without_queues
ok "the kernel's log tells of a reset" kernel_speaks
ok 'the node goes down with a packet' goes_down
ok 'sections of others stay' merges
ok 'a file that is not a record stays' refuses_record 'other text' 'record .* cannot be written: line 1: it does not begin with'
rm -f "$record"
ok 'no record without a file' with OMPI_MCA_coll_dma_record=all accept 1 mi300x 2 --record all
ok 'a GPU that there is not' accept 1 mi300x 2 --gpus 1
for option in '--gpus 1-0' '--gpus 64' '--gpus ,' '--provider nosuch' '--seconds 0' '--job-seconds 1x' '--repeat -1' '--jobs 16' '--packet 1G' '--nosuch' 'word'; do
    # shellcheck disable=SC2086 # two words
    ok "wrong: $option" accept 1 mi300x 2 $option
done
ok 'help names the record' says '^  --record FILE .*/coll-dma/record' "$accept" --help
ok 'help is enough of help' "$accept" --version
if command -v mandoc >/dev/null; then
    ok 'the manual page is well-formed' mandoc -T lint -W warning "$root/tools/accept/coll_dma_accept.1"
else
    echo 'not checked: the manual page, because mandoc is not installed'
fi

ok 'collectives' collectives
ok 'what fails in jobs alone' jobs_fail
ok 'the engine of a rank fails' engine_fails
while read -r feature name pattern; do
    ok "$name fails" fails_alone "${name//_/ }" "$feature" "$pattern"
done <<'TABLE'
copy pcpy variant pcpy .* check
copy b2b variant b2b .* check
broadcast bcst variant bcst .* check
swap swap variant swap .* check
swap halves variant halves .* check
strides types types
prelaunch armed again 20
prelaunch revoked again 200
prelaunch killed die
prelaunch behind_it prelaunch 2 [^-]*check
copy alone time g 20 65536 $
prelaunch neighbour time g 20 65536 beside
prelaunch holds hold
copy full armed_seconds 1 /
copy times time ga
swap times time x
TABLE
ok 'the node goes down with a job' job_goes_down
ok 'a job hangs' job_hangs
ok 'fewer slots than GPUs' slots
ok 'a page of mpirun' page
ok 'no mpirun' wrapped 'echo gone; exit 1' 1 "$all" '^collectives, kfd: not tried: mpirun does not run .*: gone'

ok 'a job without a record' uses '' "$work/none" "plain copies only, because $work/none .*No such file.*: coll_dma_accept" "$collective"
ok 'derived datatypes without a record' uses '' "$work/none" 'plain copies only' "$build/test/mpi/sweep" -s 3 -n 6 -w 300 -m 65536 -D device
ok 'a packet that hangs is not sent' with EMU_HANG_KINDS=swap hangs_here
accept 2 mi300x 0 "${quick[@]}" >"$work/out" 2>&1
ok 'a job with a record' uses 'rect broadcast swap poll cond-exe ' "$record" '' "$collective"
sed 's/firmware .*/firmware   7/' "$record" >"$work/firmware"
ok 'a record of another firmware' uses '' "$work/firmware" 'its firmware is 8, that of the section of .* is 7' "$collective"
cp "$record" "$work/others" && chmod g+w "$work/others"
ok 'a record that others may write' uses '' "$work/others" 'others than its owner may write it' "$collective"
sed 's/copy .*/copy       failed: hangs/' "$record" >"$work/nothing"
ok 'a record of copies that failed' says 'engine sdma does not serve device .: .*kfd: by its record copies failed: hangs' \
    job 60 2 mi300x 2 --mca coll_dma_record "$work/nothing" --mca coll_dma_queues kfd --mca coll_dma_verbose 2 "$collective"
ok 'ranks with different records' two_records "$record" "$work/none"
finish
