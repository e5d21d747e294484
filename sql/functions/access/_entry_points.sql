-- The functions that may be called from outside, all overloads of a name, and by whom. They are the
-- only ones that are SECURITY DEFINER, and the only ones that a role other than the owner may ever
-- be granted. Every other function runs inside one of them, as the owner and with its search_path.
-- used_by: send, produce, receive (applications with that right), operator, worker (processes of
-- `mqpg worker`), auditor (the audit, and readers of the views), client (the library behind every
-- right). Two of them are separated by a blank.
-- Locks: none. Cost: negligible.
create function mqpg._entry_points() returns table (name text, used_by text)
language sql immutable as $$
    select * from (values
        ('send', 'send'),
        ('send_batch', 'send'),
        ('recall', 'send'),
        ('prepare', 'produce'),
        ('prepare_batch', 'produce'),
        ('commit', 'produce'),
        ('commit_batch', 'produce'),
        ('rollback', 'produce'),
        ('rollback_batch', 'produce'),
        ('local_begin', 'produce'),
        ('due_checks', 'produce'),
        ('check_wait', 'produce'),
        ('half_states', 'produce'),
        ('reconcile', 'produce'),
        ('receive', 'receive'),
        ('fetch', 'receive'),
        ('ack', 'receive'),
        ('nack', 'receive'),
        ('extend', 'receive'),
        ('release', 'receive'),
        ('unpin', 'receive'),
        ('ready', 'receive'),
        ('dead_letters', 'receive'),
        ('find_by_key', 'receive'),
        ('trace', 'receive'),
        ('create_topic', 'operator'),
        ('alter_topic', 'operator'),
        ('drop_topic', 'operator'),
        ('purge_topic', 'operator'),
        ('pause', 'operator'),
        ('resume', 'operator'),
        ('create_producer_group', 'operator'),
        ('alter_producer_group', 'operator'),
        ('drop_producer_group', 'operator'),
        ('subscribe', 'operator'),
        ('alter_subscription', 'operator'),
        ('unsubscribe', 'operator'),
        ('seek', 'operator'),
        ('redrive', 'operator'),
        ('discard_dead_letters', 'operator'),
        ('rearm', 'operator'),
        ('settle', 'operator'),
        ('adopt', 'operator'),
        ('append', 'worker'),
        ('compensate', 'worker'),
        ('keep', 'worker'),
        ('_answer', 'worker'),
        ('_compensate', 'worker'),
        ('_expire_halves', 'worker'),
        ('_expired_halves', 'worker'),
        ('_finish_drop', 'worker'),
        ('_keep', 'worker'),
        ('_leaving', 'worker auditor'),
        ('_ledgers_served', 'worker'),
        ('_half_parked', 'auditor'),
        ('_half_pending', 'auditor'),
        ('_orphans', 'auditor'),
        ('_pins', 'auditor'),
        ('_queue_depth', 'auditor'),
        ('_subscription_lag', 'auditor'),
        ('_unmatched_messages', 'auditor')
    ) as e (name, used_by)
$$;
comment on function mqpg._entry_points() is 'Internal: the functions that may be called from outside';
