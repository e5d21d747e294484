#!/usr/bin/env bash
# tools/matrix.sh [TEST…]: run the tests of SQL and of brokers on each PostgreSQL that mqpg supports,
# those of the library on each Python and with the lowest dependencies; or all of them these tests.
# It prints one row a run and exits 1 if a run failed. A Python that is not installed here is named
# as such, and is no failure. What has passed at this commit is in .matrix, and is not run again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

SERVER=("$@")
LIBRARY=("$@")
[ $# -gt 0 ] || SERVER=(tests/sql tests/migration tests/protocols)
# The modules left out need the tools of the documentation site, or of the dashboard's tests.
[ $# -gt 0 ] || LIBRARY=(tests/integration tests/workers tests/cli tests/unit --ignore=tests/cli/test_by_hand.py
    --ignore=tests/unit/test_{diagrams,docs,sql_reference}.py)
changes=$(git diff HEAD | cksum | cut -d ' ' -f 1)    # what is not committed may change between two runs
LOGS=.matrix/$(git describe --always --dirty="-$changes")/$(cksum <<< "$*" | cut -d ' ' -f 1)
failed=0

# row NAME COMMAND…: run it unless it has passed, and print the closing line of pytest, or how it failed.
row() {
    local name=$1 log=$LOGS/${1// /-}
    shift
    if [ -f "$log.passed" ] || "$@" > "$log.log" 2>&1; then
        [ -f "$log.passed" ] || mv "$log.log" "$log.passed"
        printf '| %s | %s |\n' "$name" "$(tail -n 1 "$log.passed" | tr -d '=')"
    else
        printf '| %s | FAILED, see %s.log |\n' "$name" "$log"
        failed=1
    fi
}

mkdir -p "$LOGS"
printf '| what | result |\n|---|---|\n'
for version in 14 15 16 17 18; do
    row "PostgreSQL $version" make test-postgres VERSION="$version" ARGS="${SERVER[*]}"
done
row "lowest dependencies" make test-lowest ARGS="${LIBRARY[*]}"
for version in 3.11 3.12 3.13 3.14; do
    python=$(compgen -G "$HOME/.pyenv/versions/$version.*/bin/python" | head -n 1 || true)
    python=${python:-$(command -v "python$version" || true)}
    if [ -z "$python" ]; then
        printf '| Python %s | not installed here |\n' "$version"
    else
        row "Python $version" make test-lowest PYTHON="$python" RESOLUTION=highest ARGS="${LIBRARY[*]}"
    fi
done
exit "$failed"
