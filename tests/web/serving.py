"""A dashboard on a real port."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

import mqpg.web
from tests.support.waiting import eventually

__all__ = ["serving"]


@contextmanager
def serving(dsn: str, **options: Any) -> Iterator[str]:
    """Serve the dashboard of a broker, and yield its address.

    Args:
        dsn: The broker.
        options: Options of `mqpg.web.app`.
    """
    app = mqpg.web.app(dsn, **options)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    eventually(lambda: server.started)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(30)
    app.state.site.source.close()
    assert not thread.is_alive(), "the server waits for something"
