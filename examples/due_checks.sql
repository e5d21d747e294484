-- T2 and T3 from psql alone: half messages, and an app that polls due_checks() and decides them.
--
--   psql "$MQPG_DATABASE_URL" -v ON_ERROR_STOP=0 -f examples/due_checks.sql
--
-- The kiosk's tables could be in any other database. The statements marked (kiosk) would run there.

create table if not exists kiosk_orders (id int primary key);
-- The kiosk's ledger. The local transaction and the check-back insert under the same primary key,
-- so only one of them can succeed.
create table if not exists kiosk_ledger (
    handle text primary key,
    entry text not null check (entry in ('local', 'fence'))
);

select mqpg.create_topic('kiosk', queues => 1);
select mqpg.create_producer_group('kiosk', check_after => '500 ms', checker => 'due_checks');
select mqpg.subscribe('shipping', 'kiosk');

-- This producer dies after its local transaction, before mqpg.commit().
select mqpg.prepare('kiosk', '{"id": 1}', 'kiosk') as handle \gset
begin;                                                              -- (kiosk)
insert into kiosk_ledger values (:'handle', 'local');
insert into kiosk_orders values (1);
commit;

-- This producer dies before its local transaction.
select mqpg.prepare('kiosk', '{"id": 2}', 'kiosk') as handle \gset

select pg_sleep(1);

-- The poll. A real app repeats it without end, for instance with \watch. For each overdue half it
-- runs two statements:
--   1. The fence (kiosk). While the local transaction is open, its key makes the fence wait until
--      the lock time-out. A local transaction that begins later fails on the fence, so the rollback
--      is final.
--   2. The answer, by the row that is there now: commit, rollback, or wait.
set lock_timeout = '200ms';
\pset format unaligned
\pset tuples_only on
select
    format($$insert into kiosk_ledger values (%L, 'fence') on conflict do nothing$$, handle),
    format(
        $$select %L, case (select entry from kiosk_ledger where handle = %L)
            when 'local' then mqpg.commit(%L)::text
            when 'fence' then mqpg.rollback(%L)::text
            else (select 'wait' from mqpg.check_wait(%L, retry_after => '1 s'))
        end$$,
        payload ->> 'id', handle, handle, handle, handle)
from mqpg.due_checks('kiosk', max_messages => 100, lease => '30 s')
\gexec

select mqpg.append();
begin;
with received as materialized (select payload, receipt from mqpg.receive('shipping', 'kiosk'))
select 'delivered', payload ->> 'id' from received, (select mqpg.ack(max(receipt)) from received) as done;
commit;
