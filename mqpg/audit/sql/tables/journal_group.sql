-- The consumer groups whose journal is read, and by how many seconds the clock of its database may
-- differ from the broker's.
create temp table journal_group (consumer_group text not null, tolerance float8 not null);
