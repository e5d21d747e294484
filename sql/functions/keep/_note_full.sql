-- Notes whose limit of size a topic is at, unless another transaction has locked its row.
-- Locks: the row. Cost: one update.
create function mqpg._note_full(topic_id int, full_of text) returns void
language sql as $$
    update mqpg.topic t set full_of = _note_full.full_of
    where t.topic_id = (
        select l.topic_id from mqpg.topic l where l.topic_id = _note_full.topic_id for no key update skip locked)
$$;
