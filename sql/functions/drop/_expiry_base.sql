-- The time from which the retention of a closed segment's messages counts when some topics are past
-- retention and others are not: when the segment was closed. For a log segment it is when the tick
-- segment with its offsets was closed, because an offset that may be read keeps its body.
-- Locks: none. Cost: one look at each tick segment's row.
create function mqpg._expiry_base(segment mqpg.segment) returns timestamptz
language sql stable as $$
    select case
        when (_expiry_base.segment).family <> 'log' then (_expiry_base.segment).closed_at
        else coalesce((
            select min(k.closed_at) from mqpg.segment k
            where k.family = 'tick' and k.closed_at >= (_expiry_base.segment).closed_at), 'infinity')
    end
$$;
