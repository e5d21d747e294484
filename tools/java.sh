#!/usr/bin/env bash
# Check for Java 17 or newer, which the Spark audit needs: in JAVA_HOME, or else on PATH. If there
# is none, install the distribution's headless JRE where that is possible.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/packages.sh

WANTED=17

# java_major: print the major version of the Java that Spark would use, or nothing if there is none.
java_major() {
    local java=java
    [ -z "${JAVA_HOME:-}" ] || java="$JAVA_HOME/bin/java"
    command -v "$java" > /dev/null || return 0
    "$java" -version 2>&1 | sed -nE 's/.*version "(1\.)?([0-9]+).*/\2/p' | head -n 1
}

enough() {
    local major
    major=$(java_major)
    [ -n "$major" ] && [ "$major" -ge "$WANTED" ]
}

enough && exit 0
found=$(java_major)
if [ -n "${JAVA_HOME:-}" ]; then
    [ -n "$found" ] && what="Java $found" || what="not a Java"
    fail "JAVA_HOME=$JAVA_HOME is $what: unset it, or set it to Java $WANTED or newer"
fi
if may_install; then
    install_package openjdk-17-jre-headless openjdk-21-jre-headless default-jre-headless || true
    enough && exit 0
fi
fail "the Spark audit needs Java $WANTED or newer${found:+ (found $found)}. Install a headless JRE, then run make again:
  Debian, Ubuntu:  sudo apt-get install openjdk-17-jre-headless   (or default-jre-headless)
  Fedora, RHEL:    sudo dnf install java-17-openjdk-headless
  Alpine:          sudo apk add openjdk17-jre-headless
  or unpack any JDK and set JAVA_HOME"
