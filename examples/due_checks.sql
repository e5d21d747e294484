-- T2 and T3 from psql alone: half messages, and an app that answers for them by polling due_checks().
--   psql -v ON_ERROR_STOP=0 -f examples/due_checks.sql
-- The shop's tables could be in any other database; then the statements marked (shop) go there.

create table if not exists shop_orders (id int primary key);
-- The shop's ledger. Its primary key is what the local transaction and the check-back meet at.
create table if not exists shop_ledger (
    handle text primary key,
    entry text not null check (entry in ('local', 'fence'))
);

select mqpg.create_topic('shop', queues => 1);
select mqpg.create_producer_group('shop', check_after => '500 ms', checker => 'due_checks');
select mqpg.subscribe('shipping', 'shop');

-- A producer that dies after its local transaction, before mqpg.commit().
select mqpg.prepare('shop', '{"id": 1}', 'shop') as handle \gset
begin;                                                              -- (shop)
insert into shop_ledger values (:'handle', 'local');
insert into shop_orders values (1);
commit;

-- A producer that dies before its local transaction.
select mqpg.prepare('shop', '{"id": 2}', 'shop') as handle \gset

select pg_sleep(1);

-- The poll; a real one repeats it for ever, say with \watch. Each overdue half is asked about in two statements:
--   1. the fence (shop). Where the local transaction is open, the key makes it wait, and the time-out ends that;
--      what was not begun fails on the fence from now on, so the rollback is final;
--   2. the answer, by what is there now: commit, rollback, or "not yet".
set lock_timeout = '200ms';
\pset format unaligned
\pset tuples_only on
select
    format($$insert into shop_ledger values (%L, 'fence') on conflict do nothing$$, handle),
    format(
        $$select %L, case (select entry from shop_ledger where handle = %L)
            when 'local' then mqpg.commit(%L)::text
            when 'fence' then mqpg.rollback(%L)::text
            else (select 'wait' from mqpg.check_wait(%L, retry_after => '1 s'))
        end$$,
        payload ->> 'id', handle, handle, handle, handle)
from mqpg.due_checks('shop', max_messages => 100, lease => '30 s')
\gexec

select mqpg.append();
begin;
with received as materialized (select payload, receipt from mqpg.receive('shipping', 'shop'))
select 'delivered', payload ->> 'id' from received, (select mqpg.ack(max(receipt)) from received) as done;
commit;
