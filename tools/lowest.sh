#!/usr/bin/env bash
# Make .lowest: an environment with the lowest versions of the dependencies that pyproject.toml
# allows, and the newest test tools that go with them. .venv stays as it is. PYTHON names another
# interpreter, and RESOLUTION=highest takes the newest dependencies.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/packages.sh

ENVIRONMENT=${1:-.lowest}
RESOLUTION=${RESOLUTION:-lowest-direct}
TOOLS=(anyio Django opentelemetry-sdk pytest pytest-asyncio pytest-randomly pytest-timeout pytest-xdist hypothesis psutil pyarrow aiosqlite aiomysql PyYAML griffe ruff)

rm -rf "$ENVIRONMENT"
"${PYTHON:-python3}" -m venv "$ENVIRONMENT"
python=$ENVIRONMENT/bin/python
"$python" -m pip install --quiet uv >&2
"$python" -m uv pip install --quiet --python "$python" --resolution "$RESOLUTION" --editable '.[embedded,mysql,metrics,otel,web,mcp]' ||
    fail "the lowest versions of the dependencies do not go together"
"$python" -m uv pip freeze --quiet --python "$python" --exclude-editable > "$ENVIRONMENT/locked.txt"
"$python" -m uv pip install --quiet --python "$python" --constraint "$ENVIRONMENT/locked.txt" "${TOOLS[@]}"
printf 'mqpg: in %s: %s\n' "$ENVIRONMENT" "$(tr '\n' ' ' < "$ENVIRONMENT/locked.txt")" >&2
