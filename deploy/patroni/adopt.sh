#!/bin/sh
# Patroni's callback on_role_change, which gets ACTION ROLE CLUSTER: makes the new primary a broker
# again. MQPG_DATABASE_URL of Patroni's environment names the database. The command is repeated
# while the server is not yet ready or a transaction that has sent is still open. Patroni ends this
# script when the role changes again.
case $2 in
    primary | master) until mqpg migrate adopt --promoted; do sleep 1; done ;;
esac
