-- A role that holds a right to a topic, a producer group or a subscription. The name is stored
-- beside the id because ids change with a dump and restore: an element counts only while its id
-- still bears that name.
create type mqpg.grantee as (
    role oid,
    name name
);
comment on type mqpg.grantee is 'A role that holds a right, with the name that it had when the right was noted';
