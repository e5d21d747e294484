-- Answer of a check-back; wait means "not known yet" and does not count as a check. See protocol
-- T3.
create type mqpg.verdict as enum ('commit', 'rollback', 'wait');
