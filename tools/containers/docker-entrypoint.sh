#!/bin/bash
# What the images of PostgreSQL do at their first start, as far as docker-compose.yml and the tests
# use it: POSTGRES_USER, POSTGRES_PASSWORD, POSTGRES_DB, PGDATA and /docker-entrypoint-initdb.d.
set -euo pipefail

make_database() {
    local user=${POSTGRES_USER:-postgres} script
    local database=${POSTGRES_DB:-$user}
    initdb --username="$user" --auth-local=trust --auth-host=scram-sha-256 \
        --pwfile=<(printf '%s\n' "${POSTGRES_PASSWORD:?is not set}")
    # /tmp, because that is where the programs of the wheel look.
    printf "%s\n" "listen_addresses = '*'" "unix_socket_directories = '/var/run/postgresql, /tmp'" \
        >> "$PGDATA/postgresql.conf"
    printf 'host all all all scram-sha-256\n' >> "$PGDATA/pg_hba.conf"
    pg_ctl start --wait --options="-c listen_addresses=''"
    export PGHOST=/tmp PGUSER=$user
    [ "$database" = postgres ] || createdb --maintenance-db=postgres "$database"
    for script in /docker-entrypoint-initdb.d/*; do
        case $script in
            *.sh) "$script" ;;
            *.sql) psql --no-psqlrc --set=ON_ERROR_STOP=1 --dbname="$database" --file="$script" ;;
        esac
    done
    pg_ctl stop --wait --mode=fast
    unset PGHOST PGUSER
}

[[ ${1:-} != -* ]] || set -- postgres "$@"
if [ "${1:-}" = postgres ] && [ "$(id -u)" = 0 ]; then
    mkdir -p "$PGDATA"
    chown -R postgres "$PGDATA"
    exec setpriv --reuid=postgres --regid=postgres --clear-groups "$0" "$@"
fi
if [ "${1:-}" = postgres ] && [ ! -s "$PGDATA/PG_VERSION" ]; then
    mkdir -p "$PGDATA"
    chmod 700 "$PGDATA"
    make_database
fi
exec "$@"
