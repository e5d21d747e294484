-- Decides due messages of which some are being recalled by a transaction that has one lock for many
-- of them. It tries all at once, then two parts, and so on: a part that waits has such a message. Those
-- that are alone, and what is left after 150 tries, are postponed by a second. The tries are counted,
-- because a machine that is busy makes few in a given time.
-- Locks: the decisions' keys, each waited for at most 2 ms.
-- Cost: one insert for each message, and at most 150 waits.
create function mqpg._decide_pieces(
    ids bigint [], bodies bigint [], topics int [], queues smallint [], order_no bigint, at timestamptz,
    until timestamptz
) returns void
language plpgsql set lock_timeout = '2ms' as $$
declare
    v_froms int [] := array[1];
    v_tos int [] := array[cardinality(_decide_pieces.ids)];
    v_next int := 1;
    v_from int;
    v_to int;
    v_cut int;  -- another one in each call, so that no message stays beside one that waits
    v_tries constant int := 150;
begin
    while v_next <= cardinality(v_froms) loop
        v_from := v_froms[v_next];
        v_to := v_tos[v_next];
        v_next := v_next + 1;
        begin
            if v_next > v_tries then
                raise lock_not_available;
            end if;
            insert into mqpg.op_log (message_id, stage, order_no, xid, op, at, topic_id, queue_id, decided_by)
            select u.id, 1, _decide_pieces.order_no, pg_current_xact_id(), 'd', _decide_pieces.at, u.topic_id,
                u.queue_id, 'appender'
            from unnest(_decide_pieces.ids[v_from:v_to], _decide_pieces.topics[v_from:v_to],
                _decide_pieces.queues[v_from:v_to]) as u(id, topic_id, queue_id)
            order by u.id
            on conflict do nothing;
        exception when lock_not_available then
            if v_from < v_to and v_next <= v_tries then
                v_cut := v_from + floor((v_to - v_from) * (0.25 + random() / 2));
                v_froms := v_froms || array[v_from, v_cut + 1];
                v_tos := v_tos || array[v_cut, v_to];
            else
                insert into mqpg.delayed (visible_at, xid, first_id, deliver_id, n, written_at, topic_id, queue_id)
                select _decide_pieces.until + interval '1 second', pg_current_xact_id(), u.id, u.body, 1,
                    b.written_at, u.topic_id, u.queue_id
                from unnest(_decide_pieces.ids[v_from:v_to], _decide_pieces.bodies[v_from:v_to],
                    _decide_pieces.topics[v_from:v_to], _decide_pieces.queues[v_from:v_to])
                    as u(id, body, topic_id, queue_id)
                cross join mqpg._broker_time(_decide_pieces.at) b;
            end if;
        end;
    end loop;
end
$$;
