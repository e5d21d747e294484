"""How long workers wait for a server that says nothing."""

from __future__ import annotations

__all__ = ["CALL_TIMEOUT"]

# Seconds. It is far longer than a client waits, because one iteration of the appender may move a
# transaction of many millions of messages, and one that is cut off would be cut off each time.
CALL_TIMEOUT = 300.0
