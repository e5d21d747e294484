-- Keeps keep() from moving a topic's oldest offsets, for who is about to begin at one of them.
-- Locks: 1836150838, topic_id, shared, to the end of the transaction, waiting up to the setting lock_timeout (55P03).
-- Cost: none to speak of.
create function mqpg._lock_topic(topic_id int) returns void
language plpgsql as $$
declare
    v_timeout text;
begin
    if not pg_try_advisory_xact_lock_shared(1836150838, _lock_topic.topic_id) then
        v_timeout := mqpg._apply_lock_timeout();
        perform pg_advisory_xact_lock_shared(1836150838, _lock_topic.topic_id);
        perform set_config('lock_timeout', v_timeout, true);
    end if;
end
$$;
comment on function mqpg._lock_topic(int) is 'Internal: keep a topic''s oldest offsets where they are';
