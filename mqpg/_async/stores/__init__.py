"""The tables that mqpg keeps in its users' databases: ledger, outbox, offsets, inboxes, journal."""
