"""Mutants: functions without one of their rules, which show that the rule's test would notice.

A trap test has the decorator `without` and runs twice. With the function as it is all is well, and
with a copy whose text lacks the rule (`mutant`) it must show the damage. A pause can be put into a
function, so that a race is a sequence of steps and not luck.
"""

import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import pytest

from tests.support.broker import Broker, Session

__all__ = ["PAUSE", "Gate", "mutate", "only_if", "without"]

_PAUSE_KEY = 7_777_777
# Waits at the gate where the session asked for it. It is put between two statements of a function.
PAUSE = f"""
    if current_setting('mqpg_test.pause', true) = 'on' then
        perform pg_advisory_lock_shared({_PAUSE_KEY});
        perform pg_advisory_unlock_shared({_PAUSE_KEY});
    end if;
"""


def mutate(mq: Session, function: str, old: str, new: str, count: int = 1) -> None:
    """Replace `old` by `new` in mqpg.`function`.

    Spaces match any spaces. Fails unless it applies `count` times.
    """
    pattern = re.compile(r"\s+".join(map(re.escape, old.split())))
    oids = mq.rows(
        "select oid from pg_proc where pronamespace = 'mqpg'::regnamespace and proname = %s order by oid", function
    )
    assert oids, f"there is no function {function}"
    applied = 0
    for (oid,) in oids:
        text = mq.scalar("select pg_get_functiondef(%s)", oid)
        changed, n = pattern.subn(lambda _: new, text)
        if n:
            mq.conn.execute(changed)
            assert mq.scalar("select pg_get_functiondef(%s)", oid) != text
            applied += n
    assert applied == count, f"{old!r} is {applied} times in {function}, not {count}"


Rule = tuple[str, str, str] | tuple[str, str, str, int]


def without(*rules: Rule) -> pytest.MarkDecorator:
    """Run a test as it is, and with the argument `mutant`, for which each rule is replaced.

    A rule is a function, its text, what stands there instead, and how often, as for `mutate`. Without
    any the test makes its mutant itself.
    """
    return pytest.mark.parametrize("mutant", [(False, ()), (True, rules)], ids=["whole", "mutant"], indirect=True)


def only_if(condition: bool, context: AbstractContextManager[Any]) -> AbstractContextManager[Any]:
    """`refused` or `pytest.raises` for one of the two runs."""
    return context if condition else nullcontext()


class Gate:
    """Holds sessions that asked for it at the PAUSE of a function."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._keeper = broker.session()

    def stopping(self) -> Session:
        """A session that stops at a PAUSE while the gate is closed."""
        return self._broker.session("set mqpg_test.pause = 'on'")

    @contextmanager
    def closed(
        self, session: Session, work: Callable[..., Any], *args: object, **named: object
    ) -> Iterator[Future[Any]]:
        """Hold that session, which does the work in the background, at the gate."""
        self._keeper.execute(f"select pg_advisory_lock({_PAUSE_KEY})")
        try:
            yield self._broker.blocked(session, work, *args, **named)
        finally:
            self._keeper.execute(f"select pg_advisory_unlock({_PAUSE_KEY})")
