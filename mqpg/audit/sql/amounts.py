"""How much the messages are worth that the anomalies name."""

from __future__ import annotations

from decimal import MAX_PREC, Decimal, localcontext
from typing import Any, LiteralString

import psycopg

from mqpg.audit.report import Amounts
from mqpg.values.errors import ConfigurationError, NotGranted

from .workspace import Workspace

__all__ = ["amounts_of", "check_amount"]

_AT_ONCE = 1000
# The sum of all numbers that the path finds in the payload which was delivered.
_AMOUNT: LiteralString = """
select a.message_id, p.payload is not null as stored, (
    select sum((v.v #>> '{}')::numeric)
    from jsonb_path_query(p.payload::jsonb, %s::jsonpath, '{}', true) as v (v)
    where jsonb_typeof(v.v) = 'number'
) as amount
from unnest(%s::bigint[]) as a (message_id)
left join mqpg.op_log as o
    on o.message_id = a.message_id and o.stage = 0 and o.op = 'c' and o.visible_at is distinct from 'infinity'
cross join lateral (select coalesce(o.deliver_id, a.message_id) as body_id) as b
left join mqpg.commit_log as l on l.batch_id = b.body_id >> 10
left join mqpg.held as h on h.message_id = b.body_id
cross join lateral (select coalesce(l.payloads[(b.body_id & 1023)::int + 1], h.payload) as payload) as p
"""


def check_amount(work: Workspace, path: str) -> None:
    """Require that a path is a jsonpath, and that the role may read bodies, before the audit begins."""
    try:
        work.connection.execute(_AMOUNT, (path, []))
        work.connection.execute("select jsonb_path_query('{}', %s::jsonpath, '{}', true)", (path,))
    except psycopg.errors.InsufficientPrivilege as error:
        raise NotGranted(
            "--amount reads payloads, which an auditor may not: audit as the owner of the schema mqpg"
        ) from error
    except psycopg.errors.DatabaseError as error:
        why = error.diag.message_primary or str(error)
        raise ConfigurationError(f"--amount must be a jsonpath such as $.total, not {path!r}: {why}") from error


def amounts_of(work: Workspace, path: str, found: list[dict[str, Any]]) -> dict[str, Amounts]:
    """Sum up the amounts of the messages of each kind, each message once. `found` are all anomalies."""
    messages: dict[str, set[int]] = {}
    for row in found:
        if row["message_id"] is not None:
            messages.setdefault(row["kind"], set()).add(row["message_id"])
    ids = sorted(set().union(*messages.values()))
    worth: dict[int, tuple[bool, Decimal | None]] = {}
    for start in range(0, len(ids), _AT_ONCE):
        worth |= _worth(work, path, ids[start : start + _AT_ONCE])
    sums = {}
    for kind, those in sorted(messages.items()):
        known = [worth[one] for one in those]
        amounts = [amount for _, amount in known if amount is not None]
        stored = sum(is_stored for is_stored, _ in known)
        with localcontext(prec=MAX_PREC):  # exact
            total = sum(amounts, Decimal(0))
        sums[kind] = Amounts(total, len(amounts), stored - len(amounts), len(known) - stored)
    return sums


def _worth(work: Workspace, path: str, ids: list[int]) -> dict[int, tuple[bool, Decimal | None]]:
    """For each message whether its body is stored, and the amount. None: it has none, or jsonb refuses the body."""
    try:
        rows = work.connection.execute(_AMOUNT, (path, ids)).fetchall()
    except (psycopg.DataError, psycopg.ProgrammingError, psycopg.NotSupportedError):
        if len(ids) == 1:
            return {ids[0]: (True, None)}
        half = len(ids) // 2
        return _worth(work, path, ids[:half]) | _worth(work, path, ids[half:])
    return {row["message_id"]: (row["stored"], row["amount"]) for row in rows}
