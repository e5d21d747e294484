-- Op log: decisions about half and delayed messages, append-only; the first decision stands. The
-- first writer of a primary key wins (I3).
create table mqpg.op_log (
    message_id bigint not null,
    order_no bigint not null,  -- From the sequence batch_id, one number a call: says when the decision was made
    xid xid8 not null,
    deliver_id bigint,  -- Id of the body where a commit brought a final payload, or of the message a relay topic sends
    at timestamptz not null,
    -- Commit with a delay: due by its row in delayed. infinity: relay topic, due by a message of its own
    visible_at timestamptz,
    topic_id int not null,
    queue_id smallint not null,
    stage smallint not null,  -- 0: decision about a half message; 1: decision about a delayed message
    op "char" not null,  -- Stage 0: c commit | b rollback. Stage 1: d due | r recalled
    decided_by text not null,  -- producer | checker | admin | appender | expiry (nobody decided it in time)
    reason text,
    primary key (message_id, stage)
) partition by range (message_id);
create index op_log_commit_xid on mqpg.op_log (xid) where op = 'c' and visible_at is null;
