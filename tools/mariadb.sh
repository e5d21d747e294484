#!/usr/bin/env bash
# Check for the programs of a MariaDB or MySQL server, which make test-mariadb needs. The tests
# start a server of their own. If there is none, install the distribution's core packages, which
# start no service, where that is possible.
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
