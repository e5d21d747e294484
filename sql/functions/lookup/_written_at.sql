-- When a row of the table delayed is written, in the broker's time; see _broker_time().
-- It is plpgsql, not sql, so that its plan is kept.
-- Locks: none. Cost: two rows read.
create function mqpg._written_at(at timestamptz) returns timestamptz
language plpgsql volatile as $$
begin
    return b.written_at from mqpg._broker_time(_written_at.at) b;
end
$$;
