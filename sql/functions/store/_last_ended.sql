-- The last message of a dedup id under which another one is registered, if its first message has ended;
-- if none is, the first one. See _register_dedup_ids().
-- Locks: none. Cost: one index lookup for each message of the id within the window.
create function mqpg._last_ended(topic_id int, dedup_id text, first_id bigint, slot bigint) returns bigint
language plpgsql as $$
declare
    v_last bigint := _last_ended.first_id;
    v_at bigint := _last_ended.first_id;
    v_next bigint;
begin
    loop
        select abs(e.message_id) into v_next from mqpg.dedup e
        where e.topic_id = -abs(_last_ended.topic_id) and e.dedup_id = _last_ended.dedup_id || '.' || v_at
            and e.slot between _last_ended.slot and _last_ended.slot + 1
        order by e.slot desc limit 1;
        exit when not found;
        v_last := v_at;
        v_at := v_next;
    end loop;
    return v_last;
end
$$;
