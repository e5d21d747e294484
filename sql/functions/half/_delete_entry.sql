-- Deletes an entry of the check queue. It is a function of its own because the SQL of PGMQ only
-- works with standard_conforming_strings = on, and the caller may have switched that off.
-- Locks: the entry's row. Cost: one delete.
create function mqpg._delete_entry(msg_id bigint) returns void
language plpgsql set standard_conforming_strings = on as $$
begin
    perform pgmq.delete('mqpg_oplog', _delete_entry.msg_id);
end
$$;
