#!/usr/bin/env bash
# Shows and counts the tests that could not run here.
set -euo pipefail
file=$1
if [ -s "$file" ]; then
    echo
    echo "$(wc -l <"$file") tests did not run on this machine:"
    sed 's/^/  /' "$file"
else
    echo
    echo "Every test ran on this machine."
fi
