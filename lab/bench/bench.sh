#!/usr/bin/env bash
# Run a benchmark.
#
#     lab/bench/bench.sh VERSION [ARGUMENT…]    the benchmark on that major version of PostgreSQL
#     lab/bench/bench.sh peers [ARGUMENT…]      python -m lab.bench.peers
#
# VERSION 18 is the embedded server. For others see tools/postgres.py. The result is in .bench after
# every run of a cell.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
what=$1
shift
mkdir -p .bench
saved=.bench/$what.json
rm -f "$saved"

status=0
if [ "$what" = peers ]; then
    lab/bench/peers/install.sh || printf 'mqpg: continuing with the job queues that are installed\n' >&2
    .venv/bin/python -m lab.bench.peers --save "$saved" "$@" > /dev/null || status=$?
else
    if [ "$what" != 18 ]; then
        [ "$what" != 15 ] || lab/bench/pgq.sh
        MQPG_POSTGRES_BIN=$(.venv/bin/python tools/postgres.py "$what")
        export MQPG_POSTGRES_BIN
    fi
    .venv/bin/python -m lab.bench --save "$saved" "$@" || status=$?
fi

exit "$status"
