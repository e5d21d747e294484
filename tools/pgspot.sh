#!/usr/bin/env bash
# Read the schema with pgspot, in an environment of its own in .pgspot, because pgspot pins another
# release of pglast. Its findings are printed. The exit status is 1 where a function without the
# prefix _ has no search_path of its own. The inner ones run inside these, under their path.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

ENVIRONMENT=.pgspot
if [ ! -x "$ENVIRONMENT/bin/pgspot" ]; then
    "${PYTHON:-python3}" -m venv "$ENVIRONMENT"
    "$ENVIRONMENT/bin/python" -m pip install --quiet pgspot >&2
fi
# The migration sets this path, so what stands outside of functions is resolved by it.
{ echo 'set search_path = pg_catalog, pg_temp;'; .venv/bin/mqpg migrate sql; } > "$ENVIRONMENT/schema.sql"
"$ENVIRONMENT/bin/pgspot" "$ENVIRONMENT/schema.sql" > "$ENVIRONMENT/findings.txt" || true
cat "$ENVIRONMENT/findings.txt"
# The overloads for json and jsonb only call the one for text, as the caller.
if grep -E '^PS005: .*: mqpg\.[a-z]' "$ENVIRONMENT/findings.txt" | grep -vE 'payloads? jsonb?' > /dev/null; then
    printf 'mqpg: public functions without a search_path (see PS005)\n' >&2
    exit 1
fi
