#!/usr/bin/env bash
# Make .peers: an environment with the Python job queues that `make bench-peers` compares with. They
# stay out of .venv, because their dependencies are none of mqpg's.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
test -x .peers/bin/python || "${PYTHON:-python3}" -m venv .peers
.peers/bin/python -m pip install --quiet procrastinate pgqueuer asyncpg 'psycopg[binary,pool]' >&2
