-- The statement that moves a subscription: one queue to an offset, or all queues to a time.
-- Arguments: queue_id: null for all queues.
-- Locks: none. Cost: negligible.
create function mqpg._seek_statement(subscription mqpg.subscription, topic mqpg.topic, target text, queue_id int)
returns text
language sql immutable as $$
    select format('select mqpg.seek(%L, %L, %L%s%s);', (_seek_statement.subscription).consumer_group,
        (_seek_statement.topic).name, _seek_statement.target, ', ' || _seek_statement.queue_id,
        ', consumer => ' || quote_literal(nullif((_seek_statement.subscription).member, '')))
$$;
