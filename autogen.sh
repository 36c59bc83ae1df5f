#!/bin/bash
# Makes ./configure from configure.ac. Needs autoconf, automake, libtool and pkg-config; downloads nothing.
set -euo pipefail
cd "$(dirname "$0")"

for tool in autoreconf automake libtoolize pkg-config; do
    command -v "$tool" >/dev/null || {
        echo "autogen.sh: $tool is missing (Debian: apt-get install autoconf automake libtool pkg-config)" >&2
        exit 1
    }
done
mkdir -p config/generated
exec autoreconf --install --force --warnings=all,no-override,no-obsolete "$@"
