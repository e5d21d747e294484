"""The parts of the crash test that need no process: the protocol, the points, the comparison, the report."""

from __future__ import annotations

import io
import socket
import sys
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import Connection

import mqpg
from mqpg.crashtest import wire
from mqpg.crashtest.audit_hook import AuditHook
from mqpg.crashtest.compare import compare, compare_counts, volatile
from mqpg.crashtest.fault_injector import FaultInjector, Moment, Point, Ruling, Sent, Session
from mqpg.crashtest.judge import invalid_because
from mqpg.crashtest.options import Outcome, Result, Tried
from mqpg.crashtest.points import choose
from mqpg.crashtest.target import describe
from mqpg.values.errors import ConfigurationError


def sent(text: str, *, by_handler: bool = False, ours: bool = True) -> Sent:
    return Sent(text, wire.normalised(text), 1, by_handler, ours, in_transaction=True)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("insert into t values (1, 'it''s')", "insert  into t values (22,\n'')"),
        ("select 1.5", "select -2"),
    ],
)
def test_literals_do_not_matter(one: str, other: str) -> None:
    assert wire.normalised(one) == wire.normalised(other)


@pytest.mark.parametrize(("one", "other"), [('savepoint "_pg3_1"', 'savepoint "_pg3_2"'), ("select $1", "select $2")])
def test_names_and_parameters_matter(one: str, other: str) -> None:
    assert wire.normalised(one) != wire.normalised(other)


def test_a_prepared_statement_is_known_by_its_text() -> None:
    statements = wire.Statements()
    assert statements.executed(wire.Frame(b"P", b"s1\0select 7\0\0\0")) is None
    assert statements.executed(wire.Frame(b"B", b"p1\0s1\0\0\0\0\0\0\0")) is None
    assert statements.executed(wire.Frame(b"E", b"p1\0\0\0\0\0")) == "select 7"
    assert statements.executed(wire.query("commit")) == "commit"
    assert statements.executed(wire.Frame(b"S", b"")) is None


def test_a_frame_survives_the_way() -> None:
    frame = wire.error_response("40P01", "deadlock")
    assert wire.read_frame(io.BytesIO(frame.raw)) == frame
    assert wire.read_frame(io.BytesIO(frame.raw[:-1])) is None


def test_an_injector_rules_at_its_point_only() -> None:
    injector = FaultInjector(Point("insert ?", 2, Moment.REFUSED))
    session = Session()
    rulings = [injector.before(session, text) for text in ("insert 1", "select 1", "insert 2", "insert 3")]
    assert rulings == [Ruling.GO, Ruling.GO, Ruling.REFUSE, Ruling.GO]
    assert injector.fired
    assert not injector.dead


def test_after_a_kill_nothing_is_forwarded() -> None:
    injector = FaultInjector(Point("commit", 1, Moment.BEFORE))
    session = Session()
    assert [injector.before(session, text) for text in ("commit", "select 1")] == [Ruling.DIE, Ruling.DIE]
    assert [one.text for one in injector.trace] == ["commit"]


TRACE = [
    sent("select version"),
    sent("commit"),
    sent("select * from mqpg.receive($1)"),
    sent("insert into t values (1)", by_handler=True),
    sent("commit"),
]


def test_points_in_the_order_of_the_statements() -> None:
    points, left_out = choose(TRACE, 100)
    assert left_out == 0
    assert [point.moment for _, point in points] == [*Moment][:2] * 3 + [*Moment] + [*Moment][:2]


def test_the_most_telling_points_come_first() -> None:
    points, left_out = choose(TRACE, 7)
    assert left_out == 4
    assert {one.text for one, _ in points} == {TRACE[2].text, TRACE[3].text, TRACE[4].text}


ROWS = [{"id": 1}, {"id": 2}]


@pytest.mark.parametrize(
    ("before", "clean", "crashed", "expected"),
    [
        ([], ROWS, ROWS[::-1], []),
        ([], ROWS, ROWS[:1], [(Outcome.LOST, 1)]),
        ([], ROWS, [*ROWS, ROWS[0]], [(Outcome.DOUBLED, 1)]),
        ([{"n": 0}], [{"n": 2}], [{"n": 3}], [(Outcome.DOUBLED, 1)]),
        ([{"n": 0}], [{"n": 2}], [{"n": 1}], [(Outcome.LOST, 1)]),
        ([{"n": 9}], [{"n": 7}], [{"n": 5}], [(Outcome.DOUBLED, 1)]),
        ([{"a": "x"}], [{"a": "y"}], [{"a": "z"}], [(Outcome.DIFFERS, 1)]),
    ],
)
def test_comparison(before: Any, clean: Any, crashed: Any, expected: list[tuple[Outcome, int]]) -> None:
    found = compare({"t": before}, {"t": clean}, {"t": crashed}, {})
    assert [(one.outcome, one.rows) for one in found] == expected


def test_a_table_that_is_gone_is_lost() -> None:
    (found,) = compare({}, {"t": ROWS}, {}, {})
    assert (found.outcome, found.where, found.rows) == (Outcome.LOST, "t", 2)


def test_columns_that_differ_without_a_crash_are_not_compared() -> None:
    one, other = {"t": [{"id": 1, "at": "x"}]}, {"t": [{"id": 1, "at": "y"}]}
    assert volatile(one, other) == {"t": {"at"}}
    assert compare({}, one, other, volatile(one, other)) == []
    assert compare({}, one, {"t": []}, volatile(one, other))[0].outcome is Outcome.LOST


def test_effects_are_counted() -> None:
    mail = ("mail", "smtp")
    assert compare_counts(Counter({mail: 2}), Counter({mail: 2})) == []
    assert compare_counts(Counter({mail: 2}), Counter({mail: 3}))[0].outcome is Outcome.DOUBLED
    assert compare_counts(Counter({mail: 2}), Counter())[0].outcome is Outcome.LOST


@pytest.mark.parametrize(
    "url",
    ["sqlite:////var/lib/shop.db", "sqlite:///file:/var/lib/shop.db?uri=true", "sqlite:///../shop.db", "sqlite://"],
)
def test_a_file_outside_of_the_working_directory_is_not_tried(url: str) -> None:
    made = mqpg.consumer("orders", group="copies", database=url)(_handler)
    with pytest.raises(ConfigurationError, match="which is no scratch database"):
        describe(made, "shop:copy")


def _handler(message: mqpg.Message, conn: Connection) -> None:
    pass


@pytest.mark.parametrize(
    ("anomalies", "reasons", "expected"),
    [
        ({"lost": 2, "dead_letter": 1}, ("2 lost", "1 dead_letter"), ["audit: 2 lost, for instance lost"]),
        ({"dead_letter": 1}, ("1 dead_letter",), []),
        (
            {"dead_letter": 1, "lost": 0},
            ("1 dead_letter", "orders: messages does not hold"),
            ["audit: 1 differs, for instance orders: messages does not hold"],
        ),
    ],
)
def test_what_makes_an_audit_invalid_is_told(
    anomalies: dict[str, int], reasons: tuple[str, ...], expected: list[str]
) -> None:
    assert [str(one) for one in invalid_because(anomalies, reasons)] == expected


def test_mails_and_requests_are_counted_and_not_their_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[Any] = []
    monkeypatch.setattr(sys, "addaudithook", heard.append)
    found: Counter[tuple[str, str]] = Counter()
    AuditHook(lambda kind, name, times: found.update({(kind, name): times}), lambda: True, {5432}).start()
    (hear,) = heard
    with socket.socket() as sock, socket.socket() as other:
        session, web = SimpleNamespace(sock=sock), SimpleNamespace(sock=None, host="shop", port=80)
        hear("socket.connect", (sock, ("2001:db8::1", 25)))  # refused: the name has another address
        hear("socket.connect", (sock, ("192.0.2.1", 25)))
        hear("socket.connect", (other, ("192.0.2.1", 25)))
        hear("socket.connect", (other, ("127.0.0.1", 5432)))
        for text in (
            b"ehlo here\r\n",
            b"mail FROM:<a@b>\r\n",
            b"rcpt TO:<c@d>\r\n",
            b"data\r\n",
            b"MAIL FROM:<a@b>\r\n",
        ):
            hear("smtplib.send", (session, text))
        hear("http.client.send", (web, b"POST"))
    assert +found == {("connection", "192.0.2.1:25"): 1, ("mail", "smtp"): 2, ("HTTP request", "shop:80"): 1}


@pytest.mark.parametrize(
    ("found", "status"),
    [
        ([], 2),
        ([Outcome.ONCE], 0),
        ([Outcome.ONCE, Outcome.NOT_REACHED], 2),
        ([Outcome.ONCE, Outcome.NOT_REACHED, Outcome.LOST], 1),
        ([Outcome.STUCK], 1),
    ],
)
def test_exit_status(found: list[Outcome], status: int) -> None:
    tried = [Tried(Point("commit", 1, Moment.BEFORE), sent("commit"), outcome) for outcome in found]
    result = Result("shop:bill", "consumer", [], tried)
    assert result.status == status
    assert sum(result.as_dict()["outcomes"].values()) == len(found)
