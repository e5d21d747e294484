-- By how much the broker's own time is ahead of the server's clock. Delays and dedup ids count on the
-- broker's time, which never goes back: if the clock does, append() raises `ahead` by as much. One row.
create table mqpg.clock (
    singleton boolean primary key default true check (singleton),  -- Always true: the table has exactly one row
    ahead interval not null default '0',  -- The broker's time minus the server's
    -- While it is ahead: the server's time at the last append(), to the second
    seen_at timestamptz not null default clock_timestamp(),
    delayed_until timestamptz  -- End of the last partition of the table delayed
);
insert into mqpg.clock default values;

create sequence mqpg.due_mark as bigint minvalue 1 start 1 cache 1;
comment on sequence mqpg.due_mark is
    'due_until of the newest tick, in microseconds since 1970: a sender reads it without looking for the tick';
