-- The version of these views, and the broker; one row. A number of contract that rises says that a
-- view or a column is gone or means something else. New views and new columns, which come last, may
-- appear under the same number.
-- Cost: reads two tables of one row.
create view mqpg_audit.version as
select 1 as contract, i.release, b.broker_id, b.incarnation, b.installed_at, b.system_identifier, b.timeline
from mqpg.installation as i
cross join mqpg.broker as b;
comment on column mqpg_audit.version.contract is
    'Version of these views; rises when a view or a column is gone or means something else';
comment on column mqpg_audit.version.release is 'Release of mqpg that made the views';
comment on column mqpg_audit.version.broker_id is
    'Identity of the broker: the first part of its handles, and column broker of journals';
comment on column mqpg_audit.version.incarnation is
    'Number of this life of the broker; grows with each promotion, recovery or restore';
comment on column mqpg_audit.version.installed_at is 'When the broker was installed';
comment on column mqpg_audit.version.system_identifier is 'The server cluster that the rows were written in';
comment on column mqpg_audit.version.timeline is 'The timeline of that cluster that they were written in';
