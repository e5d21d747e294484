"""The dashboard: pages about a broker, and actions on it. Extra: `web`.

`mqpg.web.app(dsn)` is an ASGI application, to run by itself or to mount in another one.
"""

from __future__ import annotations

from .application import app

__all__ = ["app"]
