-- One pass over overdue halves whose producer group has its checker here: the ledger of this database, asked with
-- a fence, or a SQL function (protocol T3). Returns how many were worked on. compensate(1) is the short transaction
-- a handle that a worker wants; with more, fences are held until the end. Where groups have functions, set a
-- statement_timeout: one that hangs is then a check without an answer, and the pass ends with it; the others' turn
-- comes with the next call. New halves enter the op-log queue meanwhile only when the transaction is over.
-- Locks: the entries' rows, those of others are skipped; the ledger keys, each waited for at most 50 ms.
-- Cost: an index probe a group; a few lookups, an insert and a decision a half.
-- Errors: MQ001, MQ015 (call it in a READ COMMITTED transaction that has written nothing).
create function mqpg.compensate(max_messages int default 100) returns bigint
language sql as $$
    select mqpg._compensate(compensate.max_messages)
$$;
comment on function mqpg.compensate(int) is 'One pass over overdue half messages that can be answered in SQL';
