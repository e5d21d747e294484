-- The arguments of alter_subscription() that change what a subscription has: its filter, its tags.
-- Locks: none. Cost: negligible.
create function mqpg._filter_arguments(subscription mqpg.subscription) returns text
language sql immutable as $$
    select concat_ws(', ', case when (_filter_arguments.subscription).filter is not null then 'filter => ''...''' end,
        case when (_filter_arguments.subscription).tags is not null then 'tags => ''{...}''' end)
$$;
