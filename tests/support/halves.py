"""Half messages that nobody decides: check-backs are made due, and run until there is a decision or none is left."""

from collections.abc import Callable
from typing import Any, TypeVar

from tests.support.broker import Session, message_id
from tests.support.waiting import eventually

__all__ = ["ANSWER", "checks", "decided", "decision", "enqueue", "overdue_now", "parked"]

T = TypeVar("T")

# A checker that answers with what the table says, and raises if that is `boom`.
ANSWER = """
create table public.verdicts (handle text primary key, verdict text);
drop function if exists public.answer;
create function public.answer(handle text, key text, headers jsonb, payload json) returns mqpg.verdict
security definer language plpgsql as $$
declare
    v text;
begin
    select s.verdict into v from public.verdicts s where s.handle = answer.handle;
    if v = 'boom' then
        raise exception 'no idea';
    end if;
    return v;
end $$
"""


def overdue_now(mq: Session) -> None:
    """End every lease and back-off."""
    mq.execute("update pgmq.q_mqpg_oplog set vt = clock_timestamp() - interval '1 ms'")


def enqueue(mq: Session) -> None:
    """Have the halves seen, and make their checks due."""
    mq.execute("select mqpg._enqueue_halves_now('test')")
    overdue_now(mq)


def decision(mq: Session, handle: str) -> tuple[str, str] | None:
    """What was decided, `c` or `b`, and by whom."""
    sql = "select op::text, decided_by from mqpg.op_log where message_id = %s and stage = 0"
    rows = mq.rows(sql, message_id(handle))
    return tuple(rows[0]) if rows else None


def checks(mq: Session, handle: str) -> list[str]:
    """The events of its check-backs, in order."""
    rows = mq.rows("select event from mqpg.check_log where message_id = %s order by at", message_id(handle))
    return [row.event for row in rows]


def decided(mq: Session, handle: str) -> tuple[str, str]:
    """Compensate until the half is decided."""
    return _compensated(mq, lambda: decision(mq, handle))


def parked(mq: Session, handle: str) -> str:
    """Compensate until the half is parked, and return why it was."""
    rows: list[Any] = _compensated(mq, lambda: mq.rows("select reason from mqpg.half_parked where handle = %s", handle))
    return str(rows[0].reason)


def _compensated(mq: Session, look: Callable[[], T | None]) -> T:
    return eventually(lambda: (mq.value("compensate"), look())[1])
