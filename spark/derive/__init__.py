"""From rows as stored to one row per message, per queue entry, per delivery and per half message of a ledger."""
