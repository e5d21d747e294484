#!/usr/bin/env bash
# tools/venv.sh [EXTRAS]: make .venv with mqpg (editable) and these extras, "all,dev" by default. It
# returns at once if they are there and nothing changed, adds them where only they are missing, and
# makes a broken .venv again. A .venv with all,dev keeps them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/packages.sh

EXTRAS=${1:-all,dev}
VENV=.venv
# If .venv is activated, its python would be used to make it, so take it out of PATH.
if [ "${VIRTUAL_ENV:-}" = "$PWD/$VENV" ]; then
    PATH=${PATH//"$VIRTUAL_ENV/bin:"/}
fi
STAMP=$VENV/.mqpg-stamp
MADE_WITH=$VENV/.mqpg-extras
IS_ENOUGH='import sys; sys.exit(sys.version_info < (3, 11))'

# find_python: print the interpreter that PYTHON names, or else the first of the usual names that is
# new enough.
find_python() {
    local name
    for name in "${PYTHON:-python3}" python3 python3.14 python3.13 python3.12 python3.11; do
        if command -v "$name" > /dev/null && "$name" -c "$IS_ENOUGH" 2> /dev/null; then
            command -v "$name"
            return
        fi
    done
    local here="no python3"
    ! command -v python3 > /dev/null || here=$(python3 --version 2>&1)
    fail "Python 3.11 or newer is needed, but found $here: install it, or run make PYTHON=/path/to/python3"
}

# wanted_stamp: print what the environment depends on: the folder, the interpreter and the
# requirements.
wanted_stamp() {
    printf '%s\n' "$PWD" "$1" "$("$1" --version)"
    cksum pyproject.toml setup.py
}

works() {
    local modules='mqpg.sql, mqpg.migrate, pyspark'
    [ "$EXTRAS" = lab ] || modules+=', pytest'
    [ -x "$VENV/bin/mqpg" ] && "$VENV/bin/python" -c "import $modules" 2> /dev/null
}

# made_with: print the extras that .venv was made with.
made_with() {
    [ ! -f "$STAMP" ] || cat "$MADE_WITH" 2> /dev/null || echo all,dev
}

# is_current STAMP: whether .venv was made here, by this interpreter and for these requirements.
is_current() {
    [ -f "$STAMP" ] && [ "$(cat "$STAMP")" = "$1" ]
}

# show_packages: print a line for each package that pip fetches, for the long step behind them, and
# one after ten seconds without any.
show_packages() {
    local line status
    while true; do
        status=0
        IFS= read -r -t 10 line || status=$?
        if [ "$status" -gt 128 ]; then
            printf 'mqpg:   still at work, %s s\n' "$SECONDS" >&2
            continue
        fi
        [ "$status" = 0 ] || break
        case $line in
            *Downloading\ * | *Using\ cached\ *) printf 'mqpg:   %s\n' "${line#"${line%%[![:space:]]*}"}" >&2 ;;
            Building\ wheel* | Installing\ collected*) printf 'mqpg:   %s\n' "${line:0:70}" >&2 ;;
        esac
    done
}

make_venv() {
    rm -rf "$VENV"
    "$1" -m venv "$VENV" > /dev/null 2>&1 && return
    rm -rf "$VENV"
    if may_install; then # Debian has ensurepip in a separate package
        install_package "python$("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv" python3-venv || true
        "$1" -m venv "$VENV" > /dev/null && return
    fi
    fail "$1 -m venv failed; on Debian: sudo apt-get install python3-venv"
}

python=$(find_python)
if command -v flock > /dev/null; then # two runs of make at the same time
    exec 9>> .venv.lock
    flock 9
fi
stamp=$(wanted_stamp "$python")
made=$(made_with)
[ "$made" != all,dev ] || EXTRAS=$made
if is_current "$stamp" && [ "$made" = "$EXTRAS" ] && works; then
    exit 0
fi
if is_current "$stamp" && [ "$made" != "$EXTRAS" ] && "$VENV/bin/python" -c 'import mqpg.sql' 2> /dev/null; then
    printf 'mqpg: adding %s to .venv\n' "$EXTRAS" >&2
else
    printf 'mqpg: making .venv (%s) with %s; the first time takes a few minutes\n' "$("$python" --version)" "$EXTRAS" >&2
    make_venv "$python"
fi
# What is imported is compiled then; to compile all of it takes as long as to unpack it.
"$VENV/bin/python" -m pip install --no-compile --progress-bar off --disable-pip-version-check --editable ".[$EXTRAS]" |
    show_packages || fail "pip could not install the dependencies (see above)"
works || fail ".venv was made but does not work: remove it and run make again"
printf '%s\n' "$EXTRAS" > "$MADE_WITH"
printf '%s\n' "$stamp" > "$STAMP"
