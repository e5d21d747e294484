-- Parks a half that was prepared before its group got the ledger that would be asked: its prepare was open then, so
-- alter_producer_group() could not see it, and a ledger that never heard of it would rule rollback. Returns whether
-- it was one.
-- Locks: the caller holds the entry's row. Cost: none for others.
create function mqpg._park_stranger(producer_group mqpg.producer_group, message_id bigint, msg_id bigint)
returns boolean
language plpgsql as $$
begin
    if _park_stranger.message_id / 1024 > (_park_stranger.producer_group).ledger_since
        or (_park_stranger.producer_group).checker not in ('ledger', 'url') then
        return false;
    end if;
    perform mqpg._park(_park_stranger.message_id, _park_stranger.msg_id, (_park_stranger.producer_group).checker,
        'prepared before its group got this ledger, which knows nothing of it');
    return true;
end
$$;
comment on function mqpg._park_stranger(mqpg.producer_group, bigint, bigint)
    is 'Internal: park a half that is older than its group''s ledger';
