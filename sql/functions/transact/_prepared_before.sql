-- Registers the dedup id of a half message. Returns null when the id is new, else the handle of the
-- half message that had it first within the dedup window, whatever became of that one. A repeated
-- PREPARE therefore has no effect, even when it arrives after the COMMIT.
-- Locks: the dedup id's keys; waits for a running prepare() with the same id.
-- Cost: two index inserts.
create function mqpg._prepared_before(topic_id int, dedup_id text, message_id bigint, producer_group_id int)
returns text
language plpgsql as $$
declare
    v_first bigint := (mqpg._register_dedup_ids(
        _prepared_before.topic_id, array[_prepared_before.dedup_id], array[_prepared_before.message_id],
        true))[1];
    v_half record;
begin
    if v_first is null then
        return null;
    end if;
    select h.incarnation, h.nonce into v_half from mqpg._half_by_id(v_first) h
    where h.nonce is not null and h.producer_group_id = _prepared_before.producer_group_id;
    if not found then
        raise exception using errcode = 'MQ018', message = format(
            'dedup_id %L was already used by message %s, which is not a half message of this producer group or is gone',
            _prepared_before.dedup_id, v_first);
    end if;
    return mqpg._handle(v_half.incarnation, v_first, v_half.nonce);
end
$$;
