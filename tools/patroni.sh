#!/usr/bin/env bash
# Make .patroni: an environment with Patroni, its own consensus (Raft) and mqpg, for make
# test-patroni. It stays out of .venv, because Patroni's dependencies are none of mqpg's, and because
# Patroni runs as the servers' user, who may not be allowed to execute the Python of .venv.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/packages.sh

ENVIRONMENT=$PWD/.patroni

# servers_may_execute PATH: true where the user that runs PostgreSQL may execute this program.
servers_may_execute() {
    .venv/bin/python - "$1" << 'END'
import sys
from pathlib import Path

from mqpg.embedded.programs import current_account

sys.exit(not current_account().can_execute(Path(sys.argv[1])))
END
}

works() {
    "$ENVIRONMENT/bin/python" -c 'import mqpg.migrate, patroni, pysyncobj' 2> /dev/null &&
        servers_may_execute "$ENVIRONMENT/bin/python"
}

# find_python: print the first usual interpreter that is new enough and that the servers' user may
# execute.
find_python() {
    local name
    for name in "${PYTHON:-python3}" /usr/bin/python3 /usr/local/bin/python3; do
        name=$(command -v "$name") && servers_may_execute "$name" || continue
        ! "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { printf '%s\n' "$name"; return; }
    done
    fail "Patroni needs a Python 3.11 or newer that the user of PostgreSQL may execute. Install one for all users,
  then run make PYTHON=/path/to/python3 test-patroni"
}

works && exit 0
python=$(find_python)
rm -rf "$ENVIRONMENT"
if ! "$python" -m venv "$ENVIRONMENT" > /dev/null 2>&1; then
    rm -rf "$ENVIRONMENT"
    ! may_install || install_package python3-venv || true
    "$python" -m venv "$ENVIRONMENT" > /dev/null || fail "$python -m venv failed; on Debian: sudo apt-get install python3-venv"
fi
"$ENVIRONMENT/bin/python" -m pip install --quiet --disable-pip-version-check 'patroni[raft]' --editable . >&2 ||
    fail "pip could not install Patroni into .patroni (see above)"
works || fail "the user of PostgreSQL may not execute $ENVIRONMENT/bin/python: put this folder where every user may enter"
