-- The secrets that receipts are signed with. The newest one signs, and every one in the table
-- verifies, so that a key can be replaced while deliveries are open. Only the owner may read it:
-- whoever knows a key can make receipts. adopt() keeps the keys, so that an old receipt is still
-- recognized, and refused as stale.
create table mqpg.receipt_key (
    receipt_key_id int generated always as identity primary key,
    secret bytea not null default uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()),
    created_at timestamptz not null default clock_timestamp()
);
comment on table mqpg.receipt_key is
    'Secrets that receipts are signed with; the newest one signs, every one verifies';
comment on column mqpg.receipt_key.secret is '244 random bits in 32 bytes';
insert into mqpg.receipt_key default values;
