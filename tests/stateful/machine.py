"""What the parts of the state machine share: the parties, calls, transactions and the clock."""

import itertools
import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import hypothesis.errors
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine

from tests.stateful.model import Model, Tx
from tests.stateful.parties import Party, Refused
from tests.support.broker import Broker, Session, seconds

__all__ = ["Base", "DELAYS", "KEYS", "PARTIES", "QUEUES", "delayed", "handles", "receipts"]

QUEUES = 2
KEYS = st.sampled_from([None, "a", "b", "c"])
DELAYS = st.sampled_from([0.0, 0.02, 0.05])
# `main` makes every call alone; the others may have transactions open. `kim` is a process of its own.
PARTIES = st.sampled_from(["main", "main", "ann", "bob", "ann", "bob", "kim"])

handles: Bundle[str] = Bundle("handles")
receipts: Bundle[str] = Bundle("receipts")
delayed: Bundle[int] = Bundle("delayed")

LOCKED, RACED = "55P03", "40001"


class Base(RuleBasedStateMachine):
    """One history. Each has a topic of its own, on one database."""

    broker: ClassVar[Broker]
    parties: ClassVar[dict[str, Party]] = {}  # they stay connected from history to history
    watcher: ClassVar[Session]
    steps: ClassVar[int] = 0  # of all histories
    made: ClassVar[Counter[str]] = Counter()  # calls that did something, by function, and refusals by SQLSTATE
    _runs: ClassVar[Iterator[int]] = itertools.count(1)

    def __init__(self) -> None:
        super().__init__()
        self.number = next(self._runs)
        self.topic = f"t{self.number}"
        self.model = Model(QUEUES)
        self.journal: list[str] = []
        if not Base.parties:
            Base.parties = {n: Party(self.broker, n, process=n == "kim") for n in ("main", "ann", "bob", "kim")}
            self.connect_watcher()
        for party in self.parties.values():
            party.write = self.journal.append
            party.made = Base.made
        self._payloads = itertools.count(1)
        self.topic_id = 0
        self.paused = False

    @property
    def mq(self) -> Session:
        """A session that sees what is committed and never holds a transaction."""
        return self.watcher

    def connect_watcher(self) -> None:
        Base.watcher = self.broker.session()

    def payload(self) -> int:
        return next(self._payloads)

    def now(self) -> float:
        """The database's clock."""
        return float(self.watcher.scalar("select extract(epoch from clock_timestamp())"))

    def in_transaction(self) -> list[str]:
        return [name for name, party in self.parties.items() if party.tx is not None]

    def closing(self, name: str) -> bool:
        """Return whether the party has an open transaction in which the appender ran.

        It makes no further call.
        """
        tx = self.parties[name].tx
        return tx is not None and tx.passed

    @contextmanager
    def calling(self, name: str) -> Iterator[tuple[Party, Tx]]:
        """Give a party and the transaction of its calls in the block: the open one, or one for the
        block.
        """
        party = self.parties[name]
        tx = party.tx
        alone = tx is None
        if tx is None:
            tx = self.model.begin()
        elif not tx.touched and not tx.undo and not tx.effects:
            tx.begun = self.model.stamp()  # nothing written yet, so no xid
        try:
            yield party, tx
        except Refused:
            if alone:
                self.model.rollback(tx)
            raise
        if alone:
            self.model.commit(tx)

    def refused(self, name: str, codes: set[str], function: str, *args: object, **named: object) -> str:
        """Require that the call fails with one of these.

        An open transaction continues as without the call.
        """
        party = self.parties[name]
        try:
            self._guarded(party, function, *args, **named)
        except Refused as refusal:
            if refusal.code not in codes:
                raise AssertionError(f"{function}: {refusal}, expected {codes}") from refusal
            if refusal.code == RACED:
                self.end(name, commit=False)
            return refusal.code
        raise AssertionError(f"{function}{args} was accepted; expected {codes}")

    def attempt(self, name: str, may: set[str], function: str, *args: object, **named: object) -> list[Any] | str:
        """Return the rows of the call, or the SQLSTATE with which it failed, which must be one of
        `may`. A transaction that reads one snapshot may always get 40001, and is rolled back then.
        """
        party = self.parties[name]
        repeatable = party.tx is not None and party.tx.repeatable
        try:
            if may or repeatable:
                return self._guarded(party, function, *args, **named)
            return party.call(function, *args, **named)
        except Refused as refusal:
            if refusal.code not in may and not (repeatable and refusal.code == RACED):
                raise AssertionError(f"{function}{args}: {refusal}") from refusal
            if refusal.code == RACED:
                self.end(name, commit=False)
            return refusal.code

    def _guarded(self, party: Party, function: str, *args: object, **named: object) -> list[Any]:
        if party.tx is None:
            return party.call(function, *args, **named)
        party.execute("savepoint s")
        try:
            rows = party.call(function, *args, **named)
        except Refused:
            party.execute("rollback to s")
            raise
        party.execute("release s")
        return rows

    def end(self, name: str, *, commit: bool) -> None:
        """End a party's open transaction, there and in the model."""
        party = self.parties[name]
        assert party.tx is not None
        tx, party.tx = party.tx, None
        party.execute("commit" if commit else "rollback")
        (self.model.commit if commit else self.model.rollback)(tx)

    def the_end(self) -> None:
        """Examine the end of a history that went well."""

    def teardown(self) -> None:
        """Show a failure at once, with the journal.

        A replay may take another course, because its clock is another.
        """
        failure = sys.exc_info()[1]
        try:
            if failure is None:
                self.the_end()
        except BaseException as error:
            failure = error
            raise
        finally:
            if isinstance(failure, Exception) and not isinstance(failure, hypothesis.errors.HypothesisException):
                self._show(failure)
            self._close()

    def _show(self, failure: BaseException) -> None:
        trace = "".join(traceback.format_exception(failure, limit=-4))
        print(f"history {self.number} failed: {trace}\njournal:\n  " + "\n  ".join(self.journal[-80:]), flush=True)

    def _close(self) -> None:
        for party in self.parties.values():
            if party.tx is not None:
                party.tx = None
                party.cut()

    @classmethod
    def disconnect(cls) -> None:
        """Close all connections, at the end of all histories."""
        for party in cls.parties.values():
            party.close()
        if Base.parties:
            Base.watcher.conn.close()
        Base.parties = {}


__all__ += ["LOCKED", "RACED", "seconds"]
