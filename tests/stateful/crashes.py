"""Rules of crashes: connections that are cut, a process that is killed."""

from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import rule

from mqpg.embedded import EmbeddedServer
from tests.stateful.machine import Base
from tests.support.servers import restart

__all__ = ["Crashes", "ServerCrashes"]


class Crashes(Base):
    """A party that dies loses what it had not committed, and nothing else (I12)."""

    @rule(who=st.sampled_from(["ann", "bob", "ann", "bob", "kim"]))
    def crash(self, who: str) -> None:
        party = self.parties[who]
        if party.tx is None:
            return
        tx, party.tx = party.tx, None
        party.cut()
        self.model.rollback(tx)


class ServerCrashes(Base):
    """An immediate shutdown ends all open transactions.

    What was committed is there after recovery.
    """

    server: ClassVar[EmbeddedServer]

    @rule(rarely=st.integers(0, 3))
    def crash_server(self, rarely: int) -> None:
        if rarely:
            return
        self.journal.append("the server crashes")
        self.made["server crashes"] += 1
        restart(self.server)
        for party in self.parties.values():
            party.lost()
            if party.tx is not None:
                tx, party.tx = party.tx, None
                self.model.rollback(tx)
        self.connect_watcher()
