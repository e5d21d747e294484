"""Completion of names in the shell."""

from __future__ import annotations

import os
from typing import Any

__all__ = ["complete_group", "complete_producer_group", "complete_topic"]

_MOST = 200  # names that are offered


def complete_topic(incomplete: str) -> list[str]:
    """Offer the topics that begin with what was typed; none if the broker does not answer within two seconds."""
    return _names("select distinct topic from mqpg.topics", "topic", incomplete)


def complete_group(incomplete: str) -> list[str]:
    """Offer the consumer groups that begin with what was typed, as `complete_topic` does."""
    return _names("select distinct consumer_group from mqpg._subscriptions(null::text)", "consumer_group", incomplete)


def complete_producer_group(incomplete: str) -> list[str]:
    """Offer the producer groups that begin with what was typed, as `complete_topic` does."""
    return _names("select producer_group from mqpg._producer_groups()", "producer_group", incomplete)


def _names(query: str, column: str, begin: str) -> list[str]:
    """Nothing is printed here, because the shell would take it for a name."""
    import psycopg  # a command that only reads its options loads no driver
    from psycopg.conninfo import make_conninfo

    from mqpg.embedded import locate
    from mqpg.values import errors

    found = f"select q.{column} from ({query}) as q where starts_with(q.{column}, %s) order by 1 limit {_MOST}"
    try:
        where = locate.resolve(None)
        settings: dict[str, Any] = {"connect_timeout": 2, "client_encoding": "utf8", "options": _options()}
        with psycopg.connect(make_conninfo(where, **settings), autocommit=True) as conn:
            return [row[0] for row in conn.execute(found.encode(), [begin])]
    except (psycopg.Error, errors.Error, OSError):
        return []


def _options() -> str:
    return f"{os.environ.get('PGOPTIONS', '')} -c statement_timeout=2000".strip()
