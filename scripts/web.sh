#!/usr/bin/env bash
# The scripts of the pages: types checked, the committed bundles made anew and compared, and the pages opened
# in a browser. Usage: FATHOM_BIN=... web.sh
set -euo pipefail
cd "$(dirname "$0")/.."
not_run() {
    echo "NOT RUN: web: $1"
    [ -z "${FATHOM_NOT_RUN:-}" ] || echo "web: $1" >>"$FATHOM_NOT_RUN"
    exit 0
}
command -v node >/dev/null || not_run "node is not installed"
command -v npm >/dev/null || not_run "npm is not installed"
(cd web && npm ci --no-audit --no-fund --loglevel=error >/dev/null) || not_run "the npm registry is not there"
(cd web && npx tsc --noEmit && node build.mjs --check)
chromium=${CHROMIUM:-$(command -v chromium || true)}
[ -n "$chromium" ] || not_run "chromium is not installed: the pages were not opened"
mkdir -p target/shots
CHROMIUM=$chromium FATHOM_SHOTS=$PWD/target/shots node --test --test-concurrency=1 web/test/
