#!/usr/bin/env bash
# Check for Chromium and its driver, which make test-browser needs, or install the distribution's
# packages where that is possible.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/packages.sh

has_chromium() { command -v chromedriver > /dev/null && command -v chromium > /dev/null; }

has_chromium && exit 0
if may_install; then
    install_package chromium || true
    install_package chromium-driver || true
    has_chromium && exit 0
fi
fail "the tests in a browser need Chromium and its driver. Install them, then run make again:
  Debian:          sudo apt-get install chromium chromium-driver
  Fedora, RHEL:    sudo dnf install chromium chromedriver
  Alpine:          sudo apk add chromium chromium-chromedriver"
