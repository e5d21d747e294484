-- Lets a topic not be dropped before the transaction ends, so that a subscription to it can be
-- stored.
-- Locks: its row, FOR KEY SHARE, waiting up to the setting lock_timeout.
-- Cost: one row.
-- Errors: MQ003 (dropped meanwhile), 55P03, 40001.
create function mqpg._hold_topic(topic mqpg.topic) returns void
language plpgsql as $$
declare
    v_timeout text := mqpg._apply_lock_timeout();
begin
    perform from mqpg.topic t where t.topic_id = (_hold_topic.topic).topic_id for key share;
    if not found then
        raise exception using errcode = 'MQ003', message = format(
            'topic %L was dropped meanwhile', (_hold_topic.topic).name);
    end if;
    perform set_config('lock_timeout', v_timeout, true);
end
$$;
comment on function mqpg._hold_topic(mqpg.topic) is
    'Internal: let a topic not be dropped until the transaction ends';
