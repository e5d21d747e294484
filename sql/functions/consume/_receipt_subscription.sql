-- The subscription id with which a receipt begins, null if it does not begin with one. It is not
-- verified.
-- Locks: none. Cost: negligible (inlined), a tenth of a regular expression.
create function mqpg._receipt_subscription(receipt text) returns int
language sql immutable as $$
    select case
        when length(split_part(_receipt_subscription.receipt, '.', 1)) between 1 and 9
            and translate(split_part(_receipt_subscription.receipt, '.', 1), '0123456789', '') = ''
            then split_part(_receipt_subscription.receipt, '.', 1)::int
    end
$$;
