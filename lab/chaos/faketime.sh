#!/usr/bin/env bash
# Check for libfaketime, which the clock steps of the chaos run need, or install the distribution's
# package where that is possible.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tools/packages.sh

has_faketime() { .venv/bin/python -c 'from lab.chaos.clock import find_library as find; find()' 2> /dev/null; }

has_faketime && exit 0
if may_install; then
    install_package faketime || true
    has_faketime && exit 0
fi
fail "the clock steps need libfaketime. Install it, then run make again:
  Debian, Ubuntu:  sudo apt-get install faketime
  Fedora, RHEL:    sudo dnf install libfaketime
  Alpine:          sudo apk add libfaketime"
