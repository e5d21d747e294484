"""The verdict is a pure function of counts."""

from typing import Any

import pytest

from mqpg.audit.verdict import Equation, Relation, Verdict, rule

SOUND = {"confirmed": 9, "open": 0, "consumed": 9, "ahead": 0, "excused": 0, "missing": 0, "extra": 0, "purged": 0}


def relation(**counts: int) -> Relation:
    return Relation("shop", "board", "orders", **(SOUND | counts))


def test_valid() -> None:
    assert rule({"lost": 0}, [Equation("a", "t", 3, {"b": 1, "c": 2})], [relation()], []).verdict is Verdict.VALID


def test_an_anomaly_outweighs_a_doubt() -> None:
    ruling = rule({"lost": 2, "gap": 0}, [], [], ["in doubt"])
    assert (ruling.verdict, ruling.reasons) == (Verdict.INVALID, ("2 lost",))


def test_a_doubt_alone_is_unknown() -> None:
    ruling = rule({"lost": 0}, [], [], ["nothing was read"])
    assert (ruling.verdict, ruling.reasons) == (Verdict.UNKNOWN, ("nothing was read",))


def test_an_equation_that_does_not_hold_is_invalid() -> None:
    ruling = rule({}, [Equation("committed", "topic t", 3, {"in queues": 2})], [], [])
    assert ruling.reasons == ("topic t: committed does not hold",)
    assert ruling.verdict is Verdict.INVALID


@pytest.mark.parametrize(
    ("counts", "first", "second", "ids"),
    [
        ({}, True, True, True),
        ({"consumed": 8, "missing": 1}, False, True, False),
        ({"consumed": 10, "extra": 1}, True, False, False),
        ({"consumed": 8, "missing": 1, "ahead": 1}, None, True, False),
        ({"consumed": 8, "ahead": 1}, None, True, None),
        ({"open": 1, "consumed": 10}, True, True, None),
        ({"consumed": 8, "excused": 1}, True, True, True),
        ({"confirmed": 8, "purged": 1}, True, True, True),
        ({"missing": 1, "extra": 1}, True, True, False),  # a loss and a duplicate do not cancel
    ],
)
def test_relations(counts: dict[str, int], first: bool | None, second: bool, ids: bool | None) -> None:
    one = relation(**counts)
    assert (one.confirmed_le_consumed, one.confirmed_plus_open_ge_consumed, one.ids_equal) == (first, second, ids)
    expected: Any = Verdict.INVALID if False in (first, second, ids) else Verdict.VALID
    assert rule({}, [], [one], []).verdict is expected
