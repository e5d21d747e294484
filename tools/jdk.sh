#!/usr/bin/env bash
# Check for a JDK 17 or newer, which make test-java needs: a JRE cannot run a source file. If there
# is none, install the distribution's package where that is possible.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/packages.sh

has_compiler() {
    local java=java
    [ -z "${JAVA_HOME:-}" ] || java="$JAVA_HOME/bin/java"
    command -v "$java" > /dev/null && "$java" --list-modules 2> /dev/null | grep -q '^jdk.compiler@\(1[7-9]\|[2-9][0-9]\)'
}

has_compiler && exit 0
if may_install; then
    install_package openjdk-17-jdk-headless openjdk-21-jdk-headless default-jdk-headless || true
    has_compiler && exit 0
fi
fail "the example in Java needs a JDK 17 or newer, with its compiler. Install one, then run make again:
  Debian, Ubuntu:  sudo apt-get install openjdk-17-jdk-headless   (or default-jdk-headless)
  Fedora, RHEL:    sudo dnf install java-17-openjdk-devel
  Alpine:          sudo apk add openjdk17-jdk
  or unpack any JDK and set JAVA_HOME"
