"""The databases that runs of the demo have left on a server."""

import psycopg

from tests.fixtures.server import Server

__all__ = ["demo_databases"]


def demo_databases(server: Server) -> set[str]:
    """Return their names."""
    with psycopg.connect(server.dsn()) as conn:
        rows = conn.execute("select datname from pg_database where datname like 'mqpg\\_demo\\_%'").fetchall()
    return {row[0] for row in rows}
