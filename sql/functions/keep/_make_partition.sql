-- Makes one empty partition: CREATE TABLE LIKE, then ATTACH, which lets senders and receivers go on (CREATE
-- TABLE … PARTITION OF would queue behind one open reader and stop everybody). An empty table needs no CHECK:
-- there is nothing for ATTACH to scan. The indexes come by ATTACH.
-- Locks: SHARE UPDATE EXCLUSIVE on the parent, waited for at most 200 ms (55P03). Cost: DDL.
create function mqpg._make_partition(parent text, segment_no bigint, lower_bound text, upper_bound text)
returns void
language plpgsql
set lock_timeout = '200ms' as $$
declare
    v_name text := _make_partition.parent || '_' || _make_partition.segment_no;
begin
    execute format(
        'create table mqpg.%I (like mqpg.%I including defaults including constraints including storage'
        ' including compression)', v_name, _make_partition.parent);
    execute format('alter table mqpg.%I attach partition mqpg.%I for values from (%L) to (%L)',
        _make_partition.parent, v_name, _make_partition.lower_bound, _make_partition.upper_bound);
end
$$;
comment on function mqpg._make_partition(text, bigint, text, text) is 'Internal: make an empty partition';
