#!/bin/bash
# tied.sh CMD...: CMD, unless the process that should be its parent is gone already. Started by bed through setpriv, which
# has the kernel kill this process when its parent ends, a parent that ended before that aside: that is looked for here.
# Not part of ./check by itself.
[ "$PPID" = "$DMA_BED_PARENT" ] || exit 137
DMA_BED_PARENT=$$ exec "$@"
