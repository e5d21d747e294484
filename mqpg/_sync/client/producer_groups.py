# Generated from mqpg/_async/client/producer_groups.py by tools/async_to_sync.py: change that file.
"""Producer groups: when a half message is overdue, and who answers for it (protocol T3)."""

from __future__ import annotations

from mqpg._sync.client.connection import BaseClient
from mqpg._sync.client.execute import Caller
from mqpg.connection.statements import function
from mqpg.values.choices import Checker, OnExhausted
from mqpg.values.messages import Interval

__all__ = ["ProducerGroups"]

_GROUP = (
    "producer_group text, check_after interval, max_checks int, on_exhausted text, checker text, checker_target text, "
    "expire_after interval, max_undecided int"
)
_CREATE = function("create_producer_group", _GROUP)
_ALTER = function("alter_producer_group", _GROUP)
_DROP = function("drop_producer_group", "producer_group text")


class ProducerGroups(BaseClient):
    """Calls about producer groups."""

    def create_producer_group(
        self,
        producer_group: str,
        check_after: Interval = 60.0,
        max_checks: int = 15,
        on_exhausted: OnExhausted = "park",
        checker: Checker = "due_checks",
        checker_target: str | None = None,
        expire_after: Interval | None = 604800.0,
        max_undecided: int = 100000,
        *,
        conn: Caller | None = None,
    ) -> None:
        """Create a producer group. A second call with the same arguments changes nothing.

        Args:
            producer_group: Its name, of the same form as a topic's.
            check_after: How long a half message may stay undecided before it is checked back; a
                minute by default.
            max_checks: How many check-backs may go unanswered, 1 to 1000.
            on_exhausted: After that, "park" leaves the half message to an administrator and
                "rollback" rolls it back.
            checker: Who answers: "due_checks" (the application, by the call of that name), "ledger"
                (the ledger in the broker's database), "function" (an SQL function) or "url" (a
                ledger in another database, which the compensator is configured with).
            checker_target: The function's name, or the name of the ledger in the compensator's
                configuration. None for the other checkers.
            expire_after: How long a half message may stay undecided; 7 days by default. After that
                it is rolled back, after a fence, and `half_expired` counts it. While its ledger in
                another database does not answer it is parked. None: for ever.
            max_undecided: How many half messages of the group may be undecided. With more, `prepare`
                raises TooManyUndecided. They are counted about once a second.
            conn: The caller's transaction (psycopg or SQLAlchemy connection, or Session). None: the
                call commits at once.

        Raises:
            InvalidName: The name is not allowed.
            InvalidArgument: An argument is out of range, or `checker_target` does not fit
                `checker`.
            AlreadyDefined: The group exists with other arguments; `alter_producer_group` changes
                it.
        """
        values = _CREATE.values(
            producer_group, check_after, max_checks, on_exhausted, checker, checker_target, expire_after, max_undecided
        )
        self._rows(_CREATE, values, conn, repeat=True)

    def alter_producer_group(
        self,
        producer_group: str,
        *,
        check_after: Interval | None = None,
        max_checks: int | None = None,
        on_exhausted: OnExhausted | None = None,
        checker: Checker | None = None,
        checker_target: str | None = None,
        expire_after: Interval | None = None,
        max_undecided: int | None = None,
        conn: Caller | None = None,
    ) -> None:
        """Change a producer group. An argument that is None leaves its setting unchanged.

        Args:
            producer_group: The group's name.
            check_after: How long half messages that are prepared from now on may stay undecided.
            max_checks: How many check-backs may go unanswered, 1 to 1000.
            on_exhausted: "park" or "rollback".
            checker: Who answers from now on.
            checker_target: The function's or the ledger's name.
            expire_after: How long a half message may stay undecided, also one that is undecided
                now. `timedelta.max`: for ever.
            max_undecided: How many half messages of the group may be undecided.
            conn: The caller's transaction. None: the call commits at once.

        Raises:
            UnknownProducerGroup: There is no such producer group.
            InvalidArgument: An argument is out of range, or `checker_target` does not fit
                `checker`.
            WrongState: The change leads to another ledger while half messages are undecided. That
                ledger does not have their handles, so they would be rolled back.
        """
        values = _ALTER.values(
            producer_group, check_after, max_checks, on_exhausted, checker, checker_target, expire_after, max_undecided
        )
        self._rows(_ALTER, values, conn, repeat=True)

    def drop_producer_group(self, producer_group: str, *, conn: Caller | None = None) -> None:
        """Drop a producer group.

        Args:
            producer_group: The group's name.
            conn: The caller's transaction. None: the call commits at once.

        Raises:
            UnknownProducerGroup: There is no such producer group.
            WrongState: One of its half messages is undecided.
        """
        self._rows(_DROP, {"producer_group": producer_group}, conn)
