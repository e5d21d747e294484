-- Decisions, append-only; the primary key makes the first writer win (I3).
-- stage 0: op c (commit) or b (rollback) of a half; stage 1: op d (due) or r (recall) of a delayed message.
create table mqpg.op_log (
    message_id bigint not null,
    order_no bigint not null,       -- from the batch id sequence, one a call: when the decision was made
    xid xid8 not null,
    deliver_id bigint,              -- the body's message id where a commit carried a final payload; relay
                                    -- topics: the message that the decision travels as
    at timestamptz not null,
    visible_at timestamptz,         -- a commit with a delay: its row in delayed brings it; infinity: the
                                    -- commit of a relay topic's half, which a message of its own brings
    topic_id int not null,
    queue_id smallint not null,
    stage smallint not null,
    op "char" not null,
    decided_by text not null,       -- producer | checker | admin | appender
    reason text,
    primary key (message_id, stage)
) partition by range (message_id);
comment on table mqpg.op_log is 'Op log: append-only decisions over half and delayed messages; first decision stands';
create index op_log_commit_xid on mqpg.op_log (xid) where op = 'c' and visible_at is null;
