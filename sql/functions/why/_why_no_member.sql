-- A broadcast group that nobody has joined yet. No row where it has a member, or another mode.
-- Locks: none. Cost: one index lookup.
create function mqpg._why_no_member(subscription mqpg.subscription, topic mqpg.topic)
returns table (cause text, detail jsonb, remedy jsonb)
language sql stable as $$
    select 'no_member', jsonb_build_object('consumer_group', (_why_no_member.subscription).consumer_group,
        'topic', (_why_no_member.topic).name), null::jsonb
    where (_why_no_member.subscription).mode = 'broadcast' and (_why_no_member.subscription).member = ''
        and not exists (
            select from mqpg.subscription m
            where m.member_of = (_why_no_member.subscription).subscription_id)
$$;
