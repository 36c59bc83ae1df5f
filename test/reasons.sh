#!/bin/bash
# reasons.sh: every row of include/dma/reasons_table.h has a test: one that compares its value (DMA_REASON_<name>), or reads
# its counter (reason_<name>). Prints the rows that have none. Part of the suite style.
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
names=$(sed -n 's/^DMA_REASON(\(COMM\|PROC\), \([a-z0-9_]*\),.*/\2/p' "$root/include/dma/reasons_table.h")
[ -n "$names" ] || { echo 'no reasons were found'; exit 1; }
untested=0
for name in $names; do
    grep -rqE --include='*.c' --include='*.sh' "(DMA_REASON_|reason_)$name\b" "$root/test" || {
        echo "$name: no test reads it"
        untested=$((untested + 1))
    }
done
[ $untested = 0 ]
