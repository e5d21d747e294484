-- The last batch of half messages that each writer committed by commit_once(). A writer that repeats
-- a batch is recognized by it.
create table mqpg.batch_writer (
    producer_group_id int not null references mqpg.producer_group on delete cascade,
    writer text not null,  -- Who numbers the batches, such as the id of a query of Spark
    batch_no bigint not null,  -- The greatest number that was committed
    at timestamptz not null default clock_timestamp(),
    primary key (producer_group_id, writer)
);
