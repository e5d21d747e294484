-- The answer of a check-back about a local transaction (protocol T3).
create type mqpg.verdict as enum ('commit', 'rollback', 'wait');
comment on type mqpg.verdict is 'Answer of a check-back; wait means "not known yet" and does not count as a check';
