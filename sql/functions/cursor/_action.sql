-- The code of an action in the column cursor.action, by its word. The planner computes it, so that
-- the word costs nothing. The view mqpg_audit.position_change says the words again.
-- The words are a contract with auditors, so two of them also stand for what has none. `filtered` is
-- any version with which no delivery begins or ends: messages were put aside for others or until their
-- key is free, a queue got its owner, or advance() begins where a seek left the queue. `dead_letter`
-- also ends claims that ran out where no delivery begins, so that their receipts are stale.
-- Locks: none. Cost: none.
create function mqpg._action(word text) returns "char"
language sql immutable as $$
    select case _action.word
        when 'subscribe' then 's'           -- or a member joined: the first version
        when 'receive' then 'r'             -- fresh messages were claimed
        when 'ack_and_receive' then 'b'     -- both in one version
        when 'take_over' then 't'           -- a returned or expired claim was claimed again
        when 'ack' then 'a'
        when 'nack' then 'n'
        when 'extend' then 'e'
        when 'release' then 'l'
        when 'filtered' then 'f'            -- receive() skipped messages that match no filter
        when 'expired' then 'x'             -- receive() skipped messages older than message_ttl
        when 'dead_letter' then 'd'         -- receive() found messages without attempts left
        when 'unpin' then 'u'               -- the owner and its claims are gone
        when 'moved' then 'q'               -- by seek(), purge_topic() or a policy of the topic
        when 'incarnation' then 'i'         -- adopt() ended the claims of a former life
        when 'closed' then 'c'              -- keep() continues the cursor in a newer slot
        when 'carried' then 'k'             -- keep() continues it here from an older slot
    end::"char"
$$;
