-- Lets keep() not move a topic's oldest offsets until the end of the transaction, so that a
-- subscription can begin at one of them.
-- Locks: 1836150838 with the topic_id, shared, waiting up to the setting lock_timeout.
-- Cost: negligible.
-- Errors: 55P03.
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
comment on function mqpg._lock_topic(int) is
    'Internal: keep a topic''s oldest offsets where they are';
