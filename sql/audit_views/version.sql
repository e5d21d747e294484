-- The version of these views, and the broker; one row. A number of contract that rises says that a
-- view or a column is gone or means something else. New views and new columns, which come last, may
-- appear under the same number.
-- Cost: reads two tables of one row.
create view mqpg_audit.version as
select 1 as contract, i.release, b.broker_id, b.incarnation, b.installed_at, b.system_identifier, b.timeline
from mqpg.installation as i
cross join mqpg.broker as b;
-- contract: Version of these views; rises when a view or a column is gone or means something else
-- release: Release of mqpg that made the views
-- broker_id: Identity of the broker: the first part of its handles, and column broker of journals
-- incarnation: Number of this life of the broker; grows with each promotion, recovery or restore
-- installed_at: When the broker was installed
-- system_identifier: The server cluster that the rows were written in
-- timeline: The timeline of that cluster that they were written in
