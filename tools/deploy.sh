#!/usr/bin/env bash
# Check for promtool and systemd-analyze, which make test-deploy needs, or get them from the
# distribution where that is possible. Of the package prometheus only promtool is taken, into
# .promtool, because the package as a whole starts a server.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/packages.sh

PATH=$PWD/.promtool:$PATH
has_promtool() { command -v promtool > /dev/null; }
has_systemd() { command -v systemd-analyze > /dev/null; }

# take_promtool: unpack promtool from the distribution's package.
take_promtool() {
    local folder
    folder=$(mktemp -d)
    printf 'mqpg: apt-get download prometheus\n' >&2
    (cd "$folder" && apt-get -o APT::Sandbox::User=root download -qq prometheus >&2) || return 1
    mkdir -p .promtool
    dpkg-deb --fsys-tarfile "$folder"/prometheus_*.deb | tar -x -C .promtool --strip-components=3 ./usr/bin/promtool
    rm -r "$folder"
}

if ! has_promtool && may_install; then
    update_packages
    take_promtool || true
fi
if ! has_systemd && may_install; then
    install_package systemd || true
fi
has_promtool && has_systemd && exit 0
fail "the tests of deploy/ need promtool and systemd-analyze. Put promtool on PATH from the archive of
  https://prometheus.io/download or from a package, then run make again:
  Debian, Ubuntu:  sudo apt-get install prometheus systemd
  Fedora, RHEL:    sudo dnf install golang-github-prometheus systemd"
