-- Indexes by message id on the op-log queue and its archive, because check_wait(), rearm() and
-- settle() name one half message.
create index if not exists q_mqpg_oplog_message on pgmq.q_mqpg_oplog (((message ->> 'message_id')::bigint));
comment on index pgmq.q_mqpg_oplog_message is 'Overdue half messages by id (mqpg)';
create index if not exists a_mqpg_oplog_message on pgmq.a_mqpg_oplog (((message ->> 'message_id')::bigint));
comment on index pgmq.a_mqpg_oplog_message is 'Parked half messages by id (mqpg)';
