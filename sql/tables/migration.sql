-- Numbered migrations that were applied to this database. A new installation has the rows of all
-- migrations that its release knows, because its tables already contain their changes.
create table mqpg.migration (
    migration_no int not null primary key,
    name text not null,
    breaking boolean not null,
    release text not null,
    applied_at timestamptz not null default clock_timestamp()
);
comment on column mqpg.migration.breaking is 'Clients and workers that do not know this migration must stop';
comment on column mqpg.migration.release is 'The release of mqpg that applied it';
