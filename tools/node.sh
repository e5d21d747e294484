#!/usr/bin/env bash
# Check for Node.js 18 or newer with npm, which make test-node needs. If there is none, install the
# distribution's packages where that is possible.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/packages.sh

WANTED=18

has_node() {
    command -v npm > /dev/null && command -v node > /dev/null &&
        node -e "process.exit(process.versions.node.split('.')[0] >= $WANTED ? 0 : 1)"
}

has_node && exit 0
if may_install; then
    install_package nodejs && { command -v npm > /dev/null || install_package npm; } || true
    has_node && exit 0
fi
fail "the example in JavaScript needs Node.js $WANTED or newer and npm. Install them, then run make again:
  Debian, Ubuntu:  sudo apt-get install nodejs npm
  Fedora, RHEL:    sudo dnf install nodejs npm
  Alpine:          sudo apk add nodejs npm"
