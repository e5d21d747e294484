#!/usr/bin/env bash
# Run a benchmark, and record its result in benchmarks/results unless it is a quick run.
#
#     tools/bench.sh VERSION [ARGUMENT…]    mqpg bench on that major version of PostgreSQL
#     tools/bench.sh peers [ARGUMENT…]      tools/bench_peers.py
#
# VERSION 18 is the embedded server. For others see tools/postgres.py. The result is in .bench after
# every run of a cell. CONDITIONS says what else ran on the machine.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
what=$1
shift
mkdir -p .bench
saved=.bench/$what.json
rm -f "$saved"

status=0
if [ "$what" = peers ]; then
    kind=peers name=peers command="make bench-peers"
    tools/peers.sh || printf 'mqpg: continuing with the job queues that are installed\n' >&2
    .venv/bin/python tools/bench_peers.py --save "$saved" "$@" > /dev/null || status=$?
else
    kind=bench name=bench-postgresql-$what command="make bench VERSION=$what"
    if [ "$what" != 18 ]; then
        [ "$what" != 15 ] || tools/pgq.sh
        MQPG_POSTGRES_BIN=$(.venv/bin/python tools/postgres.py "$what")
        export MQPG_POSTGRES_BIN
    fi
    .venv/bin/mqpg bench --save "$saved" "$@" || status=$?
fi

case " $* " in
    *" --quick "*) exit "$status" ;;
esac
[ -f "$saved" ] || exit "$status"
failed=()
[ "$status" = 0 ] || failed=(--failed)
.venv/bin/python tools/results.py --add "$kind" --name "$name" --command "$command${*:+ ARGS=\"$*\"}" \
    --conditions "${CONDITIONS:-}" "${failed[@]}" < "$saved"
exit "$status"
