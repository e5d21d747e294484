# Generated from mqpg/_async/producer/__init__.py by tools/async_to_sync.py: change that file.
"""Producers whose business tables are not in the broker's database (protocols T2, T5 and T6)."""
