-- What a check-back found out about a local transaction (protocol T3).
create type mqpg.verdict as enum ('commit', 'rollback', 'wait');
comment on type mqpg.verdict is 'Answer of a check-back; wait is no answer and counts as no check';
