"""The verdict: invalid if anything is wrong, else unknown if anything is in doubt, else valid."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["EXIT_STATUS", "Equation", "Relation", "Ruling", "Verdict", "rule"]


class Verdict(StrEnum):
    """What the audit came to."""

    VALID = "valid"
    INVALID = "invalid"
    UNKNOWN = "unknown"


EXIT_STATUS = {Verdict.VALID: 0, Verdict.INVALID: 1, Verdict.UNKNOWN: 2}


@dataclass(frozen=True)
class Equation:
    """A conservation equation: both sides were counted by themselves."""

    name: str
    scope: str
    left: int
    right: dict[str, int]

    @property
    def holds(self) -> bool:
        """Whether the sides agree."""
        return self.left == sum(self.right.values())


@dataclass(frozen=True)
class Relation:
    """FastMiniMQ's relations between one ledger and one consumer group on one topic.

    confirmed <= consumed; confirmed + open >= consumed; both over counts, less what is accounted apart, and
    over ids (missing and extra are empty). The first cannot be judged while the group is behind.
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

    @property
    def first(self) -> bool | None:
        """confirmed <= consumed; None while the group has messages before it."""
        return None if self.ahead else self.confirmed - self.excused <= self.consumed

    @property
    def second(self) -> bool:
        """confirmed + U >= consumed."""
        return self.confirmed + self.open >= self.consumed - self.purged

    @property
    def ids_equal(self) -> bool | None:
        """Whether confirmed and consumed are one set of ids; None while that cannot be told yet."""
        if self.missing or self.extra:
            return False
        return None if self.ahead or self.open else True


@dataclass(frozen=True)
class Ruling:
    """A verdict with its reasons, one line each."""

    verdict: Verdict
    reasons: tuple[str, ...]


def rule(
    anomalies: Mapping[str, int], equations: Iterable[Equation], relations: Iterable[Relation], doubts: Iterable[str]
) -> Ruling:
    """The verdict over counts of anomalies by kind, equations, relations, and doubts (reasons for 'unknown')."""
    wrong = [f"{count} {kind}" for kind, count in anomalies.items() if count]
    wrong += [f"{one.scope}: {one.name} does not hold" for one in equations if not one.holds]
    for one in relations:
        where = f"ledger {one.ledger}, group {one.consumer_group}, topic {one.topic}"
        wrong += [f"{where}: confirmed > consumed"] if one.first is False else []
        wrong += [f"{where}: confirmed + open < consumed"] if not one.second else []
        wrong += [f"{where}: the sets of ids differ"] if one.ids_equal is False else []
    if wrong:
        return Ruling(Verdict.INVALID, tuple(wrong))
    unsure = tuple(doubts)
    return Ruling(Verdict.UNKNOWN, unsure) if unsure else Ruling(Verdict.VALID, ())
