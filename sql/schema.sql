-- The schema of mqpg. Topics, groups and handles are rows in its tables, never identifiers.
create schema if not exists mqpg;
comment on schema mqpg is 'mqpg: a transactional message queue';
