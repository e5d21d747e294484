#!/usr/bin/env bash
# Check for RabbitMQ and Erlang, which make test-rabbitmq needs, or get them from the distribution
# where that is possible. The tests start a server of their own. Of the package rabbitmq-server only
# the programs are taken, into .rabbitmq, because the package as a whole starts a server.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/packages.sh

PATH=$PWD/.rabbitmq/usr/lib/rabbitmq/bin:/usr/lib/rabbitmq/bin:$PATH:/usr/sbin
has_server() { command -v rabbitmq-server > /dev/null; }
has_erlang() { command -v erl > /dev/null && command -v epmd > /dev/null; }

# take_server: unpack RabbitMQ from the distribution's package.
take_server() {
    local folder
    folder=$(mktemp -d)
    printf 'mqpg: apt-get download rabbitmq-server\n' >&2
    (cd "$folder" && apt-get -o APT::Sandbox::User=root download -qq rabbitmq-server >&2) || return 1
    mkdir -p .rabbitmq
    dpkg-deb --fsys-tarfile "$folder"/rabbitmq-server_*.deb | tar -x -C .rabbitmq ./usr/lib/rabbitmq
    rm -r "$folder"
}

if ! has_erlang && may_install; then
    install_package erlang-nox || true
fi
if ! has_server && command -v apt-get > /dev/null; then
    take_server || true
fi
has_server && has_erlang && exit 0
fail "the tests of the inbox over RabbitMQ need its server. Install it, then run make again:
  Debian, Ubuntu:  sudo apt-get install rabbitmq-server
  Fedora, RHEL:    sudo dnf install rabbitmq-server
  or put erl, epmd and rabbitmq-server on PATH"
