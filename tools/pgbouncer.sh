#!/usr/bin/env bash
# Check for PgBouncer, which make test-pgbouncer needs, or install the distribution's package where
# that is possible. The tests start one of their own.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/packages.sh

PATH=$PATH:/usr/sbin:/usr/local/sbin
has_pgbouncer() { command -v pgbouncer > /dev/null; }

has_pgbouncer && exit 0
if may_install; then
    install_package pgbouncer || true
    has_pgbouncer && exit 0
fi
fail "the tests behind a pooler need PgBouncer. Install it, then run make again:
  Debian, Ubuntu:  sudo apt-get install pgbouncer
  Fedora, RHEL:    sudo dnf install pgbouncer
  Alpine:          sudo apk add pgbouncer"
