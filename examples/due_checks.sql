-- T2 and T3 from psql alone: half messages, and an app that answers for them by polling due_checks().
--   psql "$MQPG_DATABASE_URL" -v ON_ERROR_STOP=0 -f examples/due_checks.sql
-- The kiosk's tables could be in any other database; then the statements marked (kiosk) go there.

create table if not exists kiosk_orders (id int primary key);
-- The kiosk's ledger. Its primary key is what the local transaction and the check-back meet at.
create table if not exists kiosk_ledger (
    handle text primary key,
    entry text not null check (entry in ('local', 'fence'))
);

select mqpg.create_topic('kiosk', queues => 1);
select mqpg.create_producer_group('kiosk', check_after => '500 ms', checker => 'due_checks');
select mqpg.subscribe('shipping', 'kiosk');

-- A producer that dies after its local transaction, before mqpg.commit().
select mqpg.prepare('kiosk', '{"id": 1}', 'kiosk') as handle \gset
begin;                                                              -- (kiosk)
insert into kiosk_ledger values (:'handle', 'local');
insert into kiosk_orders values (1);
commit;

-- A producer that dies before its local transaction.
select mqpg.prepare('kiosk', '{"id": 2}', 'kiosk') as handle \gset

select pg_sleep(1);

-- The poll; a real one repeats it for ever, say with \watch. Each overdue half is asked about in two statements:
--   1. the fence (kiosk). Where the local transaction is open, the key makes it wait, and the time-out ends that;
--      what was not begun fails on the fence from now on, so the rollback is final;
--   2. the answer, by what is there now: commit, rollback, or "not yet".
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
