#!/usr/bin/env bash
# Install PgQ for the distribution's PostgreSQL 15, with which `make bench VERSION=15` compares,
# where that is possible. The benchmark names it as missing where it is not.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tools/packages.sh

has_pgq() { [ -f /usr/share/postgresql/15/extension/pgq.control ]; }

has_pgq && exit 0
if may_install; then
    install_package postgresql-15-pgq3 || true
    has_pgq && exit 0
fi
printf 'mqpg: continuing without PgQ: the package postgresql-15-pgq3 could not be installed\n' >&2
