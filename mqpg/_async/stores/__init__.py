"""The tables that mqpg has in its users' databases: ledger, outbox, offsets, inboxes, journal."""
