"""Rules of crashes: connections that are cut, a process that is killed."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.stateful.machine import Base

__all__ = ["Crashes"]


class Crashes(Base):
    """Whoever dies takes with him what he had not committed, and nothing else (I12)."""

    @rule(who=st.sampled_from(["ann", "bob", "ann", "bob", "kim"]))
    def crash(self, who: str) -> None:
        party = self.parties[who]
        if party.tx is None:
            return
        tx, party.tx = party.tx, None
        party.cut()
        self.model.rollback(tx)
