#!/usr/bin/env bash
# make test-mariadb needs the programs of a MariaDB or MySQL server; the tests start one themselves. Installs the
# distribution's where that is possible: the core packages only, which start no service.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/packages.sh

PATH=$PATH:/usr/sbin:/usr/local/sbin:/usr/libexec

has_server() {
    { command -v mariadbd && command -v mariadb-install-db && command -v my_print_defaults; } > /dev/null ||
        { command -v mysqld && ! command -v mariadbd; } > /dev/null
}

has_server && exit 0
if may_install; then
    install_package mariadb-server-core && install_package mariadb-client-core || true
    has_server && exit 0
fi
fail "the tests of ledgers in MariaDB need its server. Install it, then run make again:
  Debian, Ubuntu:  sudo apt-get install mariadb-server-core mariadb-client-core
  Fedora, RHEL:    sudo dnf install mariadb-server
  Alpine:          sudo apk add mariadb
  or put mariadbd and mariadb-install-db (or MySQL's mysqld) on PATH"
