-- Notes the database that a broker lives in, so that a copy on the same cluster is noticed.
-- breaking: no
alter table mqpg.broker add column database_oid oid;
comment on column mqpg.broker.database_oid is
    'The database that the rows were written in; append() refuses to work in a copy of it on the same cluster';
update mqpg.broker set database_oid = (select d.oid from pg_database as d where d.datname = current_database());
