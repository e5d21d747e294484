-- A role that holds a right, with the name that it had when the right was noted. Ids change with a
-- dump and restore, so an element counts only while its id still bears that name.
create type mqpg.grantee as (
    role oid,
    name name
);
