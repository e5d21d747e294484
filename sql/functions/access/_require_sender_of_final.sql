-- Raises for a caller that may not send to a topic. A commit with another payload asks this,
-- because it says what is sent.
-- Locks: none. Cost: one look at role_right; negligible for the owner.
create function mqpg._require_sender_of_final(topic_id int) returns void
language plpgsql stable as $$
begin
    if not mqpg._has_right('send', _require_sender_of_final.topic_id) then
        perform mqpg._refuse('may not send to the topic of this half message', 'grant_send', '{"topic": null}');
    end if;
end
$$;
