# Functions for the other scripts, which install packages of the distribution where that is
# possible.

fail() {
    printf 'mqpg: %s\n' "$*" >&2
    exit 1
}

# may_install: true on a system with apt-get, as root or with sudo that asks for no password.
may_install() {
    command -v apt-get > /dev/null || return 1
    [ "$(id -u)" = 0 ] || sudo -n true 2> /dev/null
}

# as_root COMMAND...: run a command as root, where may_install is true.
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

# update_packages: make the lists of packages current.
update_packages() {
    as_root apt-get update -qq >&2 || printf 'mqpg: apt-get update failed, continuing without it\n' >&2
}

# install_package NAME...: install the first of these packages that the distribution has. Targets that
# are made at the same time install one after another.
install_package() (
    exec 8> .packages.lock
    flock 8
    update_packages
    for name in "$@"; do
        printf 'mqpg: apt-get install %s\n' "$name" >&2
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$name" >&2 && exit 0
    done
    exit 1
)
