#!/bin/sh
# The standby of docker-compose.yml: copies the primary if the volume is empty, then starts the
# server with the arguments of this script. The primary's host is in PGHOST, its superuser in PGUSER,
# and the password in PGPASSWORD. The copy remembers all three.
set -eu
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    rm -rf "$PGDATA"
    pg_basebackup --pgdata="$PGDATA" --write-recovery-conf --wal-method=stream --checkpoint=fast \
        --dbname="application_name=standby"
fi
unset PGHOST PGPASSWORD PGPORT PGUSER
exec docker-entrypoint.sh "$@"
