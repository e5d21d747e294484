"""Remedies of the broker become commands, and lengths of time words."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer import Context
from typer.main import get_command

from mqpg.cli import app
from mqpg.status.words import duration
from mqpg.values.cause import Cause
from mqpg.values.remedies import in_commands, remedy

WHY = Path(__file__).parents[2] / "sql" / "functions" / "why"


@pytest.mark.parametrize(
    ("said", "command"),
    [
        ("select mqpg.unpin('g', 't', consumer => 'c-1');", "mqpg subscription unpin g t --consumer c-1"),
        ("select mqpg.redrive('g', 't', message_ids => array[17]);", "mqpg dead-letters redrive g t --id 17"),
        ("select mqpg.subscribe('g', 't');", "mqpg subscription add g t"),
        # the error of a handler, which may be any text
        ("no: select mqpg.subscribe('g', 't', mode => 'shared')", "no: select mqpg.subscribe('g', 't', mode => 'shared')"),
        ("no: select mqpg.seek('g', 't', 'x', why => 'y')", "no: select mqpg.seek('g', 't', 'x', why => 'y')"),
        ("select mqpg.seek('g', 't', '7', 1, consumer => 'c'); It moves.",
         "mqpg subscription seek g t 7 --queue 1 --consumer c; It moves."),
        ("select mqpg.seek('g', 't', '2026-11-24 12:01:00+00');", "mqpg subscription seek g t '2026-11-24 12:01:00+00'"),
        ("A: select mqpg.alter_subscription('g', 't', filter => '...', tags => '{...}'); B",
         "A: mqpg subscription alter g t --filter ... --tag ...; B"),
        ("select mqpg.append();", "select mqpg.append();"),
        ("A consumer has to call receive('g', 't').", "A consumer has to call receive('g', 't')."),
    ],
)  # fmt: skip
def test_a_statement_becomes_a_command(said: str, command: str) -> None:
    assert in_commands(said) == command


def test_a_cause_says_one_of_both() -> None:
    cause = Cause("half_parked", json.dumps({"producer_group": "app"}), "Decide it with settle().")
    assert remedy(cause) == "look at mqpg half list --parked, then mqpg half rearm HANDLE or mqpg half settle HANDLE"


def test_the_commands_take_their_options() -> None:
    root: Any = get_command(app)
    for name, options in (
        ("alter", ("--filter", "--tag")),
        ("seek", ("--queue", "--consumer")),
        ("unpin", ("--consumer",)),
    ):
        command = root.get_command(Context(root), "subscription").get_command(Context(root), name)
        known = {option for one in command.params for option in one.opts}
        assert known.issuperset(options), name


def test_every_statement_of_the_broker_has_a_command() -> None:
    """Those that no command stands for end a session, or run what a worker does."""
    said = "".join(path.read_text() for path in WHY.glob("_why*.sql"))
    called = set(re.findall(r"select mqpg\.(\w+)\((?:%|'')", said))
    assert called
    left = {name for name in called if in_commands(f"select mqpg.{name}('g', 't');").startswith("select")}
    assert left <= {"resume"}, "of resume() the cause has its own command"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-5, "0 s"), (119.4, "119 s"), (120, "2 min"), (1359, "22 min 39 s"), (3600, "1 h"), (7501, "2 h 5 min"),
     (93600, "1 d 2 h")],
)  # fmt: skip
def test_a_length_of_time_in_words(seconds: float, words: str) -> None:
    assert duration(seconds) == words
