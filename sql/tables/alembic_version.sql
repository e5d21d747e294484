-- The last revision of Alembic's branch `mqpg` that this database has: one row. A new installation
-- has the last one that its release knows, because its tables already contain all changes. Rows of
-- other branches do not matter.
create table mqpg.alembic_version (
    version_num varchar(32) not null,  -- Id of the revision: the number of its file in sql/migrations, and _mqpg
    constraint alembic_version_pkc primary key (version_num)
);
