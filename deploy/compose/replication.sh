#!/bin/sh
# Runs once, when the image of PostgreSQL makes the database: lets the standby of the profile `ha`
# connect. The image's own rules leave replication out.
set -e
echo "host replication all all scram-sha-256" >>"$PGDATA/pg_hba.conf"
