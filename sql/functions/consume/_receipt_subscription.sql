-- The subscription id with which a receipt begins, null if it does not begin with one. It is not
-- verified. Up to nine digits and a dot are one; where the dot is first, the id is 0, which no
-- subscription has.
-- Locks: none. Cost: negligible (inlined), a tenth of a regular expression.
create function mqpg._receipt_subscription(receipt text) returns int
language sql immutable as $$
    select case
        when starts_with(translate(left(_receipt_subscription.receipt, 10), '0123456789', ''), '.')
            then ('0' || split_part(_receipt_subscription.receipt, '.', 1))::int
    end
$$;
