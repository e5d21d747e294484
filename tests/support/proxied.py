"""A proxy before a server of the tests, and the DSN that leads through it."""

from collections.abc import Iterator
from contextlib import contextmanager

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from lab.proxy import Proxy, proxy

__all__ = ["proxied"]


@contextmanager
def proxied(dsn: str) -> Iterator[tuple[Proxy, str]]:
    """Yield a proxy before the server of a DSN, and the DSN of the same database through it."""
    where = conninfo_to_dict(dsn)
    with proxy(str(where["host"]), int(str(where["port"]))) as cut:
        yield cut, make_conninfo(dsn, host="127.0.0.1", port=cut.port, sslmode="disable", gssencmode="disable")
