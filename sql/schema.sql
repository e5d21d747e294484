-- The one schema of mqpg. Topics, groups and handles are data in it, never identifiers.
create schema if not exists mqpg;
comment on schema mqpg is 'mqpg: transactional message queue';
