-- The consumer groups whose journal is read, and by how many seconds the clock of its database may
-- differ from the broker's. in_broker: it, or a part of it, is in the database of a broker.
create temp table journal_group (consumer_group text not null, tolerance float8 not null, in_broker boolean not null);
