# Generated from mqpg/_async/__init__.py by tools/async_to_sync.py: change that file.
"""The library proper, synchronous. Its synchronous twin mqpg._sync is generated from it."""
