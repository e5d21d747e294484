"""Code that is right comes out once at every crash point."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mqpg.crashtest.fault_injector import Moment
from mqpg.crashtest.options import Options, Outcome, Result

pytestmark = pytest.mark.timeout(600)  # seconds on an idle machine
EXAMPLES = Path(__file__).parents[2] / "examples"
CASES = {
    "right:bill": ("bill.sql",),
    "right:bill_async": ("bill.sql",),
    "right:bill_session": ("bill.sql",),
    "right:share": ("bill.sql",),
    "right:copy": ("bill.sql",),
    "right:copy_sqlite": ("bill.sql",),
    "right:copy_in_schema": ("billing.sql",),
    "right:mail": (),
    "right:place": ("right:create_topic", "bill.sql"),
    "right:place_half": ("right:create_topic", "bill.sql"),
}
OF_EXAMPLES: dict[str, list[tuple[str, tuple[str, ...]]]] = {
    "consumer_local_database.py": [("of_examples:book", ("of_examples:make_stock",))],
    "relay_topic.py": [("of_examples:ship", ("of_examples:dispatch",))],
    "same_database_send.py": [("of_examples:place_order", ("of_examples:make_orders",))],
    "half_message.py": [("of_examples:half", ())],
    "several_topics.py": [("of_examples:several", ())],
    "outbox.py": [
        ("of_examples:qos_1", ("of_examples:make_outbox",)),
        ("of_examples:qos_2", ("of_examples:make_outbox",)),
    ],
    "consumer_same_transaction.py": [("consumer_same_transaction:bill", ("invoices.sql",))],
    "consumer_external.py": [("consumer_external:mail", ())],
    "request_reply.py": [("of_examples:price", ("of_examples:ask_for_prices",))],
}
# The points that are chosen for right:bill, the same in each run: its delivery, and what it writes.
OF_BILL = [("select", Moment.BEFORE), ("select", Moment.AFTER), *(("insert", moment) for moment in Moment)]
# Its business is in the memory of the process, which no crash survives.
NOT_TRIED = {"post_message.py"}
PAYLOADS = {
    "of_examples:book": ('{"item": "bolt", "pieces": 100}', '{"item": "bolt", "pieces": -30}'),
    "of_examples:ship": (),
    "of_examples:price": (),
    "consumer_same_transaction:bill": ('{"id": 1, "amount": 5}',),
    "consumer_external:mail": ('{"to": "ann@example.org"}', '{"to": "bob"}', '{"to": "busy@example.org"}'),
}
# The others have many statements, so only `make test-crashtest` tries them.
QUICK_ONES = ("consumer_same_transaction.py", "consumer_external.py", "request_reply.py", "same_database_send.py")
RUNS = [(target, setups) for runs in OF_EXAMPLES.values() for target, setups in runs]
QUICK = [run for name in QUICK_ONES for run in OF_EXAMPLES[name]]


def outcomes(result: Result) -> set[Outcome]:
    return {one.outcome for one in result.tried}


@pytest.mark.chaos
@pytest.mark.parametrize("target", CASES)
def test_every_point_comes_out_once(target: str, crash: Callable[..., Result]) -> None:
    points = 5 if target == "right:bill" else 3  # the fifth is a statement that is refused
    result = crash(target, *CASES[target], points=points)
    assert outcomes(result) == {Outcome.ONCE}, result.as_dict()
    assert result.status == 0
    assert result.advice == []
    assert len(result.tried) == points
    assert result.left_out > 0
    assert any("were left out" in note for note in result.notes)
    if target == "right:bill":
        assert [(one.sent.text.split()[0], one.point.moment) for one in result.tried] == OF_BILL


@pytest.mark.chaos
def test_sequences_and_times_are_not_compared_and_sums_are(crash: Callable[..., Result]) -> None:
    result = crash("right:count", "totals.sql", points=3)
    assert outcomes(result) == {Outcome.ONCE}, result.as_dict()
    assert [note for note in result.notes if note.startswith("table")] == [
        "table entry: at differs between two runs without a crash: not compared",
        "table total: at differs between two runs without a crash: not compared",
    ]


@pytest.mark.chaos
@pytest.mark.parametrize(("target", "setups"), QUICK, ids=[target for target, _ in QUICK])
def test_examples(target: str, setups: tuple[str, ...], crash: Callable[..., Result]) -> None:
    folder = {"folder": EXAMPLES} if target.startswith("consumer_") else {}
    result = crash(target, *setups, messages=PAYLOADS.get(target, Options.messages), points=3, **folder)
    assert outcomes(result) == {Outcome.ONCE}, result.as_dict()


def test_no_example_is_left_out() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(OF_EXAMPLES) | NOT_TRIED


@pytest.mark.crashtest
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("target", "setups"), [*CASES.items(), *RUNS])
def test_every_single_point(target: str, setups: tuple[str, ...], crash: Callable[..., Result]) -> None:
    """All points of everything, which takes minutes."""
    folder = {"folder": EXAMPLES} if target.startswith("consumer_") else {}
    given = {"messages": PAYLOADS[target]} if target in PAYLOADS else {}
    result = crash(target, *setups, points=1000, **folder, **given)
    assert outcomes(result) == {Outcome.ONCE}, result.as_dict()
    assert result.left_out == 0
