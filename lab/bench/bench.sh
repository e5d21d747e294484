#!/usr/bin/env bash
# Run the benchmark on a major version of PostgreSQL: lab/bench/bench.sh VERSION [ARGUMENT…]
#
# VERSION 18 is the embedded server. For others see tools/postgres.py.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
version=$1
shift

if [ "$version" != 18 ]; then
    [ "$version" != 15 ] || lab/bench/pgq.sh
    MQPG_POSTGRES_BIN=$(.venv/bin/python tools/postgres.py "$version")
    export MQPG_POSTGRES_BIN
fi
exec .venv/bin/python -m lab.bench "$@"
