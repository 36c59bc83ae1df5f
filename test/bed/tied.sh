#!/bin/bash
# tied.sh CMD...: runs CMD, unless its parent has ended. bed starts this script through setpriv, after which the kernel kills it
# when its parent ends. If the parent has ended before setpriv, this script notices and ends. Not part of ./check by itself.
[ "$PPID" = "$DMA_BED_PARENT" ] || exit 137
DMA_BED_PARENT=$$ exec "$@"
