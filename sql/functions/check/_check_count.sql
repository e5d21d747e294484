-- How often a half message was checked since it was last rearmed: checks leaves out those that were
-- answered with wait, asked counts all. (PGMQ's read_ct counts waits, too.)
-- Locks: none. Cost: one index range of check_log.
create function mqpg._check_count(message_id bigint, out checks int, out asked int)
language sql stable as $$
    select count(*) filter (where c.event = 'asked') - count(*) filter (where c.event = 'waited'),
        count(*) filter (where c.event = 'asked')
    from mqpg.check_log c
    where c.message_id = _check_count.message_id and c.at > coalesce((
        select max(r.at) from mqpg.check_log r
        where r.message_id = _check_count.message_id and r.event = 'rearmed'), '-infinity')
$$;
