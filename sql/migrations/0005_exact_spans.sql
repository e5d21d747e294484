-- Stores time spans that are added to times as exact seconds, because days follow the calendar.
-- breaking: no
update mqpg.producer_group
set check_after = make_interval(secs => extract(epoch from check_after)::float8),
    expire_after = case
        when expire_after < interval '100 years' then make_interval(secs => extract(epoch from expire_after)::float8)
        else expire_after
    end;
update mqpg.subscription set retry_delay = make_interval(secs => extract(epoch from retry_delay)::float8);
update mqpg.topic
set message_ttl = make_interval(secs => extract(epoch from message_ttl)::float8),
    lose_after = make_interval(secs => extract(epoch from lose_after)::float8);
