#!/usr/bin/env bash
# The exports, read by public programs without changes: fio-plot for fio's JSON, pandas for CSV and
# Parquet. Their packages go to target/consumers; where they cannot be had, that is said and counted.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
venv=$root/target/consumers
not_run() {
    echo "NOT RUN: consumers: $1" | tee -a "${FATHOM_NOT_RUN:-/dev/null}"
    exit 0
}

if [ ! -x "$venv/bin/fio-plot" ]; then
    python3 -m venv "$venv" >/dev/null 2>&1 || not_run "python3 has no venv"
    "$venv/bin/pip" install -q fio-plot pandas pyarrow >/dev/null 2>&1 || {
        rm -rf "$venv"
        not_run "fio-plot and pandas cannot be installed"
    }
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir results
for depth in 1 2 4; do
    cat >plan.toml <<PLAN
name = "randread"
scratch = "32MiB"
[[step]]
name = "randread"
load = { depth = $depth, time = "1s" }
PLAN
    "$FATHOM_BIN" run plan.toml -q -o "$depth.fathom" >/dev/null
    "$FATHOM_BIN" export "$depth.fathom" --format fio-json -o "results/randread-$depth-1.json" 2>/dev/null
done
MPLBACKEND=Agg "$venv/bin/fio-plot" -i results -T check -l -d 1 2 4 -n 1 -r randread -o plot.png >plot.log 2>&1 || {
    cat plot.log
    exit 1
}
[ -s plot.png ] || { cat plot.log; echo "consumers: fio-plot made no picture"; exit 1; }

"$FATHOM_BIN" export 4.fathom --format csv --table cells -o cells.csv 2>/dev/null
"$FATHOM_BIN" export 4.fathom --format parquet --table histogram -o histogram.parquet 2>/dev/null
"$FATHOM_BIN" export 4.fathom --format json -o run.json 2>/dev/null
"$venv/bin/python" - <<'PYTHON'
import json, pandas
run = json.load(open("run.json"))
cell = [c for c in run["cells"] if c["path"] == "randread"][0]
cells = pandas.read_csv("cells.csv")
row = cells[cells.step == "randread"].iloc[0]
assert row.ios == cell["read"]["ios"], (row.ios, cell["read"]["ios"])
buckets = pandas.read_parquet("histogram.parquet")
service = buckets[(buckets.step == "randread") & (buckets.time == "service")]
assert service["count"].sum() == cell["read"]["ios"]
assert (service.low_ns <= service.mid_ns).all() and (service.mid_ns <= service.high_ns).all()
PYTHON
echo "consumers: fio-plot drew fio's JSON; pandas read CSV and Parquet, and they agree"
