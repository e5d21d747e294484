create table entry (id bigint generated always as identity, order_id int, at timestamptz default clock_timestamp());
create table total (orders int, at timestamptz);
insert into total values (0);
