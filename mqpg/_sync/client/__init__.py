# Generated from mqpg/_async/client/__init__.py by tools/async_to_sync.py: change that file.
"""The client: every call of the SQL API, one module for each kind of call."""
