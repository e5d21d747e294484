-- The functions that may be called from outside, all overloads of a name, and by whom. They are the
-- only ones that are SECURITY DEFINER, and the only ones that a role other than the owner may ever
-- be granted. Every other function runs inside one of them, as the owner and with its search_path.
-- used_by: send, produce, receive (applications with that right), operator, worker (processes of
-- `mqpg worker`), auditor (the audit, and readers of the views), client (the library behind every
-- right), owner (no other role); several are separated by blanks.
-- Locks: none. Cost: negligible.
create function mqpg._entry_points() returns table (name text, used_by text)
language sql immutable as $$
    select n.name, e.used_by
    from (values
        ('send', 'send send_batch recall'),
        ('produce', 'prepare prepare_batch commit commit_batch commit_once rollback rollback_batch local_begin _note_ledger'),
        ('produce worker', 'due_checks check_wait'),
        ('produce operator', 'reconcile'),
        ('produce operator worker', 'half_states _lost_halves'),
        ('receive', 'receive fetch fetch_batches fetch_range topic_offsets _surviving_offsets advance ack nack extend release unpin ready dead_letters find_by_key trace _bodies'),
        ('receive operator auditor', 'acknowledged'),
        ('receive produce operator auditor', 'why _why _session_facts'),
        ('operator',
            'create_topic alter_topic drop_topic purge_topic pause resume create_producer_group alter_producer_group '
            'drop_producer_group subscribe alter_subscription unsubscribe seek redrive discard_dead_letters rearm '
            'settle adopt grant_send grant_produce grant_receive revoke_send revoke_produce revoke_receive'),
        ('operator worker', 'adopt_promoted'),
        ('operator auditor', '_subscriptions _producer_groups'),
        ('operator auditor worker',
            '_blocked_segments _append_backlog _failing _group_causes _half_parked _half_pending '
            '_append_refusal _clock_steps _full_disk _full_topics _growth _newest_dead_letter _orphans _overfull_groups _pins _queue_depth '
            '_recent_commits _silent_filters _silent_ledgers _subscription_lag'),
        ('worker',
            'append compensate keep work _answer _compensate _expire_halves _parked_halves '
            '_finish_drop _keep _tables_to_drop _open_queues _ledgers_served '
            '_forget_workers _checker_targets _claim_ledgers _release_ledger _is_served_elsewhere _due_in_ledger '
            '_note_ledgers _unnoted_ledgers _apply_size_limits'),
        ('owner', 'grant_operator grant_auditor grant_worker revoke_operator revoke_auditor revoke_worker'),
        ('client',
            '_topic_facts _subscription_facts _subscription_differences _checker_of _dead_among _surviving_offset '
            '_wanted_offsets _gone_owners _places_of _is_repetition _handled_by_others _is_behind _dropped_among _queues_age '
            '_note_journal'),
        ('client worker', '_newest _touched'),
        ('client worker auditor', 'schema_version _broker _heartbeat'),
        ('auditor', '_path_matches')
    ) as e (used_by, names)
    cross join lateral string_to_table(e.names, ' ') as n (name)
$$;
