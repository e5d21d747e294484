"""The verdict on an audit.

It is invalid if anything is wrong, otherwise unknown if anything is in doubt, otherwise valid.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["EXIT_STATUS", "Equation", "Relation", "Ruling", "Verdict", "rule"]


class Verdict(StrEnum):
    """The result of an audit."""

    VALID = "valid"
    INVALID = "invalid"
    UNKNOWN = "unknown"


EXIT_STATUS = {Verdict.VALID: 0, Verdict.INVALID: 1, Verdict.UNKNOWN: 2}


@dataclass(frozen=True)
class Equation:
    """A conservation equation. Its two sides were counted independently.

    Attributes:
        name: What the left side counts.
        scope: The topic or group that it is about.
        right: The summands of the right side, by what they count.
    """

    name: str
    scope: str
    left: int
    right: dict[str, int]

    @property
    def holds(self) -> bool:
        """Whether the two sides are equal."""
        return self.left == sum(self.right.values())


@dataclass(frozen=True)
class Relation:
    """FastMiniMQ's relations between one ledger and one consumer group on one topic.

    The relations are confirmed <= consumed and confirmed + open >= consumed. They are checked over
    counts, without the excused and purged messages, and over ids: `missing` and `extra` must be 0.
    While the group has not reached all messages, the first relation has no result yet.

    Attributes:
        ledger: The producer groups of the ledger.
        confirmed: Local transactions that are marked done.
        open: The other local transactions, U in the relations.
        consumed: Messages in the group's journal.
        ahead: Confirmed messages that the group has not reached yet.
        excused: Confirmed messages that the group does not have to apply, or will retry.
        missing: Confirmed messages that the group should have applied and did not.
        extra: Consumed messages without a local transaction.
        purged: Consumed messages whose ledger row may have been deleted.
        overridden: Consumed messages that an operator committed by hand without a local
            transaction.
    """

    ledger: str
    consumer_group: str
    topic: str
    confirmed: int
    open: int
    consumed: int
    ahead: int
    excused: int
    missing: int
    extra: int
    purged: int
    overridden: int = 0

    @property
    def confirmed_le_consumed(self) -> bool | None:
        """The first relation. None while the group has not reached all messages."""
        return None if self.ahead else self.confirmed - self.excused <= self.consumed

    @property
    def confirmed_plus_open_ge_consumed(self) -> bool:
        """The second relation."""
        return self.confirmed + self.open >= self.consumed - self.purged - self.overridden

    @property
    def ids_equal(self) -> bool | None:
        """Whether the confirmed and the consumed ids are the same set. None while work is open."""
        if self.missing or self.extra:
            return False
        return None if self.ahead or self.open else True


@dataclass(frozen=True)
class Ruling:
    """A verdict and its reasons, one line each. A valid audit has none."""

    verdict: Verdict
    reasons: tuple[str, ...]


def rule(
    anomalies: Mapping[str, int], equations: Iterable[Equation], relations: Iterable[Relation], doubts: Iterable[str]
) -> Ruling:
    """Give the verdict. `anomalies` has their number by kind, and `doubts` are reasons for the verdict unknown."""
    wrong = [f"{count} {kind}" for kind, count in anomalies.items() if count]
    wrong += [f"{one.scope}: {one.name} does not hold" for one in equations if not one.holds]
    for one in relations:
        scope = f"ledger {one.ledger}, group {one.consumer_group}, topic {one.topic}"
        wrong += [f"{scope}: confirmed > consumed"] if one.confirmed_le_consumed is False else []
        wrong += [f"{scope}: confirmed + open < consumed"] if not one.confirmed_plus_open_ge_consumed else []
        wrong += [f"{scope}: the sets of ids differ"] if one.ids_equal is False else []
    if wrong:
        return Ruling(Verdict.INVALID, tuple(wrong))
    unsure = tuple(doubts)
    return Ruling(Verdict.UNKNOWN, unsure) if unsure else Ruling(Verdict.VALID, ())
