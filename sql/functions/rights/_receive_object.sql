-- What a right to receive is a right to, from the names that grant_receive() takes: a subscription,
-- a topic for all groups, a group on all topics, or everything.
-- Locks: none. Cost: a few index lookups.
create function mqpg._receive_object(
    consumer_group text, topic text, out subscription_id int, out topic_id int, out named_group text
)
language plpgsql stable as $$
begin
    if _receive_object.topic = '*' then
        if _receive_object.consumer_group <> '*' or _receive_object.consumer_group is null then
            perform mqpg._require_name('consumer_group', _receive_object.consumer_group);
            named_group := _receive_object.consumer_group;
        end if;
    elsif _receive_object.consumer_group = '*' then
        topic_id := (mqpg._topic(_receive_object.topic)).topic_id;
    else
        subscription_id := (mqpg._subscription(_receive_object.consumer_group, _receive_object.topic)).subscription_id;
    end if;
end
$$;
