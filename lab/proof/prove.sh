#!/usr/bin/env bash
# Run the formal proof. It needs SPIN and a C compiler, which this script installs where that is
# possible.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tools/packages.sh

ready() {
    command -v spin > /dev/null && command -v gcc > /dev/null && echo 'int main(void) { return 0; }' \
        | gcc -x c -o /dev/null - 2> /dev/null
}

if ! ready && may_install; then
    command -v spin > /dev/null || install_package spin || true
    command -v gcc > /dev/null || install_package gcc || true
    ready || install_package libc6-dev || true
fi
ready || fail "the proof needs SPIN and a C compiler. Install them, then run make prove again:
  Debian, Ubuntu:  sudo apt-get install spin gcc libc6-dev
  elsewhere:       https://spinroot.com (one C program), and gcc"
exec "${PYTHON:-python3}" -m lab.proof "$@"
