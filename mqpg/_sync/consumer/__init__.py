# Generated from mqpg/_async/consumer/__init__.py by tools/async_to_sync.py: change that file.
"""The consumer: iterations of receive, effect and acknowledgement (protocols C1, C2 and C3)."""
