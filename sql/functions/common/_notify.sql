-- Notifies those who listen, if the queue of notifications has room. A full one would let the commit
-- of the whole transaction fail, in every database of the cluster, and whoever listens also looks by
-- itself. The look at the queue frees what nobody needs any more, which otherwise only a NOTIFY that
-- succeeds does.
-- Locks: those of NOTIFY. Cost: a look at the listening sessions.
create function mqpg._notify(channel text, payload text) returns void
language plpgsql as $$
begin
    if pg_notification_queue_usage() < 0.9 and octet_length(_notify.payload) < 8000 then
        perform pg_notify(_notify.channel, _notify.payload);
    end if;
end
$$;
