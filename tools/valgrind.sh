#!/usr/bin/env bash
# Check for Valgrind, with which make cost counts, or install the distribution's package where that is
# possible.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/packages.sh

has_valgrind() { command -v valgrind > /dev/null; }

has_valgrind && exit 0
if may_install; then
    install_package valgrind || true
    has_valgrind && exit 0
fi
fail "make cost needs Valgrind. Install it, then run make again:
  Debian, Ubuntu:  sudo apt-get install valgrind
  Fedora, RHEL:    sudo dnf install valgrind
  Alpine:          sudo apk add valgrind"
