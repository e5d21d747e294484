#!/usr/bin/env bash
# tools/matrix.sh [TEST…]: run the tests of the library on each PostgreSQL and each Python that mqpg
# supports, and with the lowest versions of its dependencies. It prints one row a run and exits 1 if a
# run failed. A Python that is not installed here is named as such, and is no failure.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

TESTS=("$@")
[ $# -gt 0 ] || TESTS=(tests/sql tests/protocols tests/integration tests/workers)
LOGS=${LOGS:-$(mktemp -d -t mqpg-matrix-XXXXXX)}
failed=0

# row NAME COMMAND…: run it, and print the closing line of pytest, or how it failed.
row() {
    local name=$1 log
    shift
    log=$LOGS/${name// /-}.log
    if "$@" > "$log" 2>&1; then
        printf '| %s | %s |\n' "$name" "$(tail -n 1 "$log" | tr -d '=')"
    else
        printf '| %s | FAILED, see %s |\n' "$name" "$log"
        failed=1
    fi
}

printf '| what | result |\n|---|---|\n'
for version in 14 15 16 17 18; do
    row "PostgreSQL $version" make test-postgres VERSION="$version" ARGS="${TESTS[*]}"
done
row "lowest dependencies" make test-lowest ARGS="${TESTS[*]}"
for version in 3.11 3.12 3.13 3.14; do
    python=$(compgen -G "$HOME/.pyenv/versions/$version.*/bin/python" | head -n 1 || true)
    python=${python:-$(command -v "python$version" || true)}
    if [ -z "$python" ]; then
        printf '| Python %s | not installed here |\n' "$version"
    else
        row "Python $version" make test-lowest PYTHON="$python" RESOLUTION=highest ARGS="${TESTS[*]}"
    fi
done
exit "$failed"
