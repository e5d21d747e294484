-- Shortens the leases and waits of one queue if its cursor was written while the server's clock was ahead:
-- by as much as it was, or by `by` if that is more. Receipts stay valid.
-- Locks: none; the caller holds the queue's cursor lock.
-- Cost: one lookup, and one cursor version if there is something to mend.
-- Errors: 40001.
create function mqpg._shorten_claims(subscription_id int, queue_id int, by interval default '0') returns void
language plpgsql as $$
declare
    v_cursor mqpg.cursor := mqpg._cursor(_shorten_claims.subscription_id, _shorten_claims.queue_id);
    v_by interval := greatest(_shorten_claims.by, v_cursor.at - clock_timestamp());
begin
    -- Another session may have done it since the caller looked.
    if (v_cursor.at > clock_timestamp()) is not true then
        return;
    end if;
    for v_i in 1..cardinality(v_cursor.claims) loop
        v_cursor.claims[v_i].lease_until := v_cursor.claims[v_i].lease_until - v_by;
    end loop;
    perform mqpg._write_cursor(
        v_cursor, mqpg._action('extend'), null, v_cursor.claimed, v_cursor.owner, v_cursor.claims);
end
$$;
