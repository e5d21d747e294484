# Generated from mqpg/_async/stores/__init__.py by tools/async_to_sync.py: change that file.
"""The tables that mqpg has in its users' databases: ledger, outbox, offsets, inboxes, journal."""
