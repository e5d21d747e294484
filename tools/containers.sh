#!/usr/bin/env bash
# tools/containers.sh [COMMAND...]: run a command with a Docker engine, Compose, and the images that
# docker-compose.yml, the Dockerfile and the tests name. Without a command it only gets them.
#
# The engine is the one that answers, or else the distribution's, which is started for this run and
# stopped at its end. Images come from their registry, or else are made from packages alone
# (tools/containers/Dockerfile). All that is got stays in ~/.cache/mqpg/containers for the next run.
# The exit status is 3 if no engine can be had.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/packages.sh

CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/mqpg/containers
COMPOSE_VERSION=v2.40.3
PATH=$PATH:/usr/sbin:/sbin

say() { printf 'mqpg: %s\n' "$*" >&2; }

no_engine() {
    say "containers need $1"
    exit 3
}

# need PROGRAM PACKAGE: install the distribution's package if the program is missing.
need() {
    command -v "$1" > /dev/null && return
    may_install && install_package "$2" ||
        no_engine "$1: install it (Debian, Ubuntu: sudo apt-get install $2), or start a Docker engine"
}

stop_engine() {
    local pid
    pid=$(cat "$CACHE/docker.pid" 2> /dev/null) || return 0
    as_root kill "$pid" && tail --pid="$pid" --sleep-interval=0.2 --follow /dev/null
}

# start_engine: take the engine that answers, or start one that listens at a socket of its own.
start_engine() {
    command -v docker > /dev/null && docker info > /dev/null 2>&1 && return
    need dockerd docker.io
    need docker docker.io
    export DOCKER_HOST=unix://$CACHE/docker.sock
    trap stop_engine EXIT
    if ! docker info > /dev/null 2>&1; then
        rm -f "$CACHE/docker.pid" # of one that was killed; its number may be another process now
        say "starting dockerd, log in $CACHE/docker.log"
        as_root dockerd --host "$DOCKER_HOST" --group "$(id -g)" --pidfile "$CACHE/docker.pid" \
            --data-root "$CACHE/data" --exec-root "$CACHE/exec" > "$CACHE/docker.log" 2>&1 9>&- &
        timeout 60 bash -c 'until docker info; do sleep 0.2; done' > /dev/null 2>&1 ||
            no_engine "dockerd, which does not start: $(tail -n 3 "$CACHE/docker.log")"
    fi
    docker container prune --force > /dev/null
    docker image prune --force --filter until=240h > /dev/null
}

# build_compose: make the plug-in from its Go module.
build_compose() {
    local plugin=$CACHE/config/cli-plugins/docker-compose
    [ ! -x "$plugin" ] || return 0
    command -v go > /dev/null || no_engine "Docker's compose plug-in, or Go 1.21 or newer to build it"
    say "building Compose $COMPOSE_VERSION, which takes minutes"
    mkdir -p "$CACHE/compose" "$(dirname "$plugin")"
    cd "$CACHE/compose"
    rm -f go.mod go.sum
    {
        go mod init compose
        go get "github.com/docker/compose/v2/cmd@$COMPOSE_VERSION"
        CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X github.com/docker/compose/v2/internal.Version=$COMPOSE_VERSION" \
            -o "$plugin" github.com/docker/compose/v2/cmd
    } > build.log 2>&1 || fail "Compose cannot be built: $(tail -n 3 build.log)"
}

# make_debian: a minimal Debian, which trusts the certificates that this machine trusts.
make_debian() {
    docker image inspect mqpg-stand-in-debian > /dev/null 2>&1 && return
    need mmdebstrap mmdebstrap
    as_root mmdebstrap --quiet --variant=apt --include=ca-certificates \
        --customize-hook='copy-in /usr/local/share/ca-certificates /usr/local/share' \
        --customize-hook='chroot "$1" update-ca-certificates' bookworm - | docker import - mqpg-stand-in-debian > /dev/null
}

# provide IMAGE TARGET: pull an image, or build the stand-in of that name.
registry=true
provide() {
    local label
    label=$(docker image inspect --format '{{index .Config.Labels "mqpg.stand-in"}}' "$1" 2> /dev/null) &&
        [ "$label" != true ] && return
    if $registry; then
        docker pull --quiet "$1" >&2 2> /dev/null && return
        registry=false
        # Its helper, which removes what a killed run leaves, is an image, too.
        export TESTCONTAINERS_RYUK_DISABLED=true
        say "no registry of images answers: images are made from packages; Grafana has none and is not run"
    fi
    make_debian
    say "stand-in for $1"
    docker build --target "$2" --tag "$1" tools/containers > "$CACHE/build.log" 2>&1 ||
        fail "$1 cannot be built: $(tail -n 3 "$CACHE/build.log")"
}

# named PATTERN FILE: the image that a file names.
named() { grep -oE -m 1 "$1:v?[0-9]+\.[0-9a-z.-]*" "$2"; }

mkdir -p "$CACHE"
exec 9> "$CACHE/lock"
flock --nonblock 9 || { say "waiting for another run with containers" && flock 9; }
start_engine
docker buildx version > /dev/null 2>&1 || export DOCKER_BUILDKIT=0
docker compose version > /dev/null 2>&1 || export DOCKER_CONFIG=$CACHE/config
build_compose &
compose=$!
provide "$(named python Dockerfile)" python
provide "$(named postgres docker-compose.yml)" postgres-18
provide postgres:18 postgres-18
provide postgres:15 postgres-15
provide "$(named prom/prometheus docker-compose.yml)" prometheus
wait "$compose" || exit
say "building the images of the Dockerfile"
docker compose build migrate audit > "$CACHE/build.log" 2>&1 || fail "they cannot be built: $(tail -n 3 "$CACHE/build.log")"
[ $# = 0 ] || "$@" 9>&-
