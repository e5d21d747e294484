-- Notes a right that was granted or revoked in the rows that the hot path reads.
-- Locks, cost: as _note_holders().
create function mqpg._note_right(privilege text, topic_id int, producer_group_id int, subscription_id int)
returns void
language sql as $$
    select mqpg._note_holders(
        coalesce(_note_right.topic_id, (
            select s.topic_id from mqpg.subscription s where s.subscription_id = _note_right.subscription_id)),
        _note_right.producer_group_id)
    where _note_right.privilege in ('send', 'produce', 'receive')
$$;
