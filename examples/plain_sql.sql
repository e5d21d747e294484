-- The queue from plain SQL. Any language that can call a function can do the same.
--
--   psql "$MQPG_DATABASE_URL" -v ON_ERROR_STOP=1 -f examples/plain_sql.sql
--
-- The database needs the schema: `mqpg migrate`, or `mqpg migrate sql | psql -v ON_ERROR_STOP=1`.

create table if not exists parcels (id int primary key, town text not null);

select mqpg.create_topic('parcels', queues => 2);
select mqpg.subscribe('couriers', 'parcels');

-- A business change and its message in one transaction: both are committed, or neither is.
begin;
insert into parcels (id, town) values (1, 'Basel');
select mqpg.send('parcels', '{"id": 1, "town": "Basel"}', key => '1');
commit;

begin;
-- This one is rolled back, so no consumer receives its message.
insert into parcels (id, town) values (2, 'Bern');
select mqpg.send('parcels', row_to_json(parcels), key => '2') from parcels where id = 2;
rollback;

-- `mqpg worker` does this all the time. pg_cron or any client may do it, too.
select mqpg.append();

-- Receive, effect and acknowledgement in one transaction: the effect happens exactly once.
create table if not exists deliveries (parcel int primary key, town text not null);

begin;
with received as materialized (
    select payload, receipt, queue_offset from mqpg.receive('couriers', 'parcels', max_messages => 10)
),

effect as (
    insert into deliveries (parcel, town)
    select (payload ->> 'id')::int, payload ->> 'town' from received
)

select mqpg.ack(receipt) from (select distinct receipt from received) as receipts;
commit;

select parcel, town from deliveries order by parcel;
